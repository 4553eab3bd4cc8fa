"""Shell lines that define Slurm's variables and commands for an imported sbatch script.

Only those that the script uses are defined. The values come from the environment of Bursar's tasks.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from bursar.config.sbatch.task_sizes import Size

_SLURM_VARIABLE = re.compile(r"\b(SLURM_[A-Z0-9_]+)\b")
_SRUN = re.compile(r"(?:^|[\s;&|(`])srun\b")
_SHOW_HOSTNAMES = re.compile(r"\bscontrol\s+show\s+host")
_INDEX = '"${BURSAR_ARRAY_INDEX:-0}"'
_NUMERIC_JOB_ID = "$(printf %s \"${BURSAR_JOB_ID%%\\[*}\" | cksum | cut -d' ' -f1)"

SRUN = """\
srun() {  # each task runs the script itself: what srun would have started, it runs
  while [ $# -gt 0 ]; do
    case "$1" in
      --) shift; break ;;
      --*=*) shift ;;
      --exact|--exclusive|--label|--no-kill|--overlap|--pty|--quiet|--unbuffered|--verbose) shift ;;
      --kill-on-bad-exit|--overcommit|--oversubscribe|--preserve-env) shift ;;
      --*|-[ABCDGJLMNTcdeimnopqrtwx]) if [ $# -gt 1 ]; then shift; fi; shift ;;
      -*) shift ;;
      *) break ;;
    esac
  done
  "$@"
}"""
SCONTROL = 'scontrol() { echo "$MASTER_ADDR"; }  # the first node, which scripts look for'


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayPlan:
    """Slurm's task ids of an array, in order of Bursar's index from 0."""

    values: tuple[int, ...]

    @property
    def step(self) -> int | None:
        """The difference between consecutive ids, if it is constant."""
        steps = {b - a for a, b in zip(self.values, self.values[1:], strict=False)}
        return steps.pop() if len(steps) == 1 else None if steps else 1


def uses_srun(body: str) -> bool:
    """Whether the commands call srun; comments are ignored."""
    lines = (line for line in body.splitlines() if not line.lstrip().startswith("#"))
    return any(_SRUN.search(line) for line in lines)


def prologue(
    body: str, name: str, size: Size, array: ArrayPlan | None
) -> tuple[str, tuple[str, ...]]:
    """Return the prologue, and the Slurm variables in the script that it cannot define."""
    values = _slurm_variables(name, size, array)
    used = sorted(set(_SLURM_VARIABLE.findall(body)))
    lines = [f"export {variable}={values[variable]}" for variable in used if variable in values]
    if uses_srun(body):
        lines.append(SRUN)
    if _SHOW_HOSTNAMES.search(body):
        lines.append(SCONTROL)
    return "\n".join(lines), tuple(variable for variable in used if variable not in values)


def _slurm_variables(name: str, size: Size, array: ArrayPlan | None) -> dict[str, str]:
    return {
        **dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOBID"), _NUMERIC_JOB_ID),
        "SLURM_JOB_NAME": shlex.quote(name),
        "SLURM_JOB_PARTITION": '"$BURSAR_QUEUE"',
        "SLURM_JOB_ACCOUNT": '"$BURSAR_QUEUE"',
        "SLURM_JOB_USER": '"${USER:-$(id -un)}"',
        **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), str(size.nodes)),
        **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), '"$WORLD_SIZE"'),
        **dict.fromkeys(("SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"), '"$LOCAL_WORLD_SIZE"'),
        "SLURM_PROCID": '"$RANK"',
        "SLURM_LOCALID": '"$LOCAL_RANK"',
        "SLURM_NODEID": '"$NODE_RANK"',
        **dict.fromkeys(("SLURM_JOB_NODELIST", "SLURM_NODELIST"), '"$MASTER_ADDR"'),
        **dict.fromkeys(("SLURMD_NODENAME", "SLURM_NODENAME"), '"$BURSAR_NODE"'),
        **dict.fromkeys(("SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE"), str(size.cpus or 1)),
        **dict.fromkeys(("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"), str(size.gpus)),
        **dict.fromkeys(("SLURM_GPUS", "SLURM_NGPUS"), str(size.gpus * size.tasks)),
        "SLURM_GPUS_PER_TASK": str(size.gpus),
        "SLURM_MEM_PER_NODE": str(round(size.memory_gib * 1024)),
        "SLURM_SUBMIT_DIR": '"$PWD"',
        "SLURM_TMPDIR": '"${TMPDIR:-/tmp}"',
        "SLURM_RESTART_COUNT": '"$((BURSAR_ATTEMPT - 1))"',
        **(_array_variables(array) if array else {}),
    }


def _array_variables(array: ArrayPlan) -> dict[str, str]:
    first, step = array.values[0], array.step
    ids = " ".join(str(value) for value in array.values)
    task_id = f"$(echo {ids} | cut -d' ' -f$((${{BURSAR_ARRAY_INDEX:-0}} + 1)))"
    if step is not None:
        task_id = (
            _INDEX if (first, step) == (0, 1) else f'"$(({first} + {step} * ${_INDEX[2:-1]}))"'
        )
    return {
        "SLURM_ARRAY_TASK_ID": task_id,
        "SLURM_ARRAY_JOB_ID": _NUMERIC_JOB_ID,
        "SLURM_ARRAY_TASK_COUNT": str(len(array.values)),
        "SLURM_ARRAY_TASK_MIN": str(min(array.values)),
        "SLURM_ARRAY_TASK_MAX": str(max(array.values)),
        "SLURM_ARRAY_TASK_STEP": str(step or 1),
    }
