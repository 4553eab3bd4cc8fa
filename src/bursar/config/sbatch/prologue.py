"""What goes before the commands of an sbatch script so that they find what Slurm would have set.

Only what the script uses is written. Values come from the variables that every task of ours has.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from bursar.config.sbatch.task_sizes import Size

_USED = re.compile(r"\b(SLURM_[A-Z0-9_]+)\b")
_SRUN = re.compile(r"(?:^|[\s;&|(`])srun\b")
_HOSTNAMES = re.compile(r"\bscontrol\s+show\s+host")
_INDEX = '"${BURSAR_ARRAY_INDEX:-0}"'
_NUMBER_OF_ID = "$(printf %s \"${BURSAR_JOB_ID%%\\[*}\" | cksum | cut -d' ' -f1)"

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
    """The numbers that an array goes through, in order of our own index from 0."""

    values: tuple[int, ...]

    @property
    def step(self) -> int | None:
        """The distance from each to the next, if it is always the same."""
        steps = {b - a for a, b in zip(self.values, self.values[1:], strict=False)}
        return steps.pop() if len(steps) == 1 else None if steps else 1


def uses_srun(body: str) -> bool:
    """Whether commands, not comments, call srun."""
    lines = (line for line in body.splitlines() if not line.lstrip().startswith("#"))
    return any(_SRUN.search(line) for line in lines)


def prologue(
    body: str, name: str, size: Size, array: ArrayPlan | None
) -> tuple[str, tuple[str, ...]]:
    """The lines to put first, and the variables in the script that we cannot give a value."""
    known = _values(name, size, array)
    used = sorted(set(_USED.findall(body)))
    lines = [f"export {one}={known[one]}" for one in used if one in known]
    if uses_srun(body):
        lines.append(SRUN)
    if _HOSTNAMES.search(body):
        lines.append(SCONTROL)
    return "\n".join(lines), tuple(one for one in used if one not in known)


def _values(name: str, size: Size, array: ArrayPlan | None) -> dict[str, str]:
    return {
        **dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOBID"), _NUMBER_OF_ID),
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
        **(_of_array(array) if array else {}),
    }


def _of_array(array: ArrayPlan) -> dict[str, str]:
    first, step = array.values[0], array.step
    numbers = " ".join(str(value) for value in array.values)
    number = f"$(echo {numbers} | cut -d' ' -f$((${{BURSAR_ARRAY_INDEX:-0}} + 1)))"
    if step is not None:
        number = _INDEX if (first, step) == (0, 1) else f'"$(({first} + {step} * ${_INDEX[2:-1]}))"'
    return {
        "SLURM_ARRAY_TASK_ID": number,
        "SLURM_ARRAY_JOB_ID": _NUMBER_OF_ID,
        "SLURM_ARRAY_TASK_COUNT": str(len(array.values)),
        "SLURM_ARRAY_TASK_MIN": str(min(array.values)),
        "SLURM_ARRAY_TASK_MAX": str(max(array.values)),
        "SLURM_ARRAY_TASK_STEP": str(step or 1),
    }
