"""An sbatch script as a job of ours. What is not carried over is said, line by line.

The script itself is kept as it is; ``sbatch_shell.py`` puts before it what it expects of Slurm.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bursar.catalog.gpu_models import find_gpu_model
from bursar.config.job.environment import variable
from bursar.config.job.job_writer import write_job
from bursar.config.job.times import MOST_GRACE_SECONDS, stop_signal
from bursar.config.sbatch.options import SbatchOption, Script, read_script
from bursar.config.sbatch.prologue import ArrayPlan, prologue, uses_srun
from bursar.config.sbatch.task_sizes import Amounts, Size, as_resources, size_of
from bursar.config.yaml.key_tables import exact_duration
from bursar.config.yaml.value_readers import InvalidValue
from bursar.core.admission.problem import suggest
from bursar.core.admission.value_limits import MOST_ARRAY
from bursar.model.errors import UserError
from bursar.model.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

Plain = dict[str, Any]
BASH_LIKE = ("bash", "sh", "dash")
SHELLS = (*BASH_LIKE, "zsh", "ksh")
"""Those that understand what stands before the commands."""
END = "BURSAR_END_OF_SCRIPT"
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class SbatchImport:
    """The job file, and what somebody who knows the script should know about it."""

    document_yaml: str
    notes: tuple[str, ...] = ()


def import_sbatch(text: str, file: str) -> SbatchImport:
    """Turn a batch script into a job file, or say why it cannot be one."""
    if "\0" in text or len(text) > 1 << 19:
        fix = "Name a batch script."
        raise UserError(f"{file} is not a script.", fix=fix, code="not-sbatch")
    script = read_script(text, file)
    if not script.body.strip():
        fix = "Write the commands below the #SBATCH lines."
        raise UserError(f"{file} has no commands.", fix=fix, code="not-sbatch")
    return _Import(script, file).build()


class _Import:
    """One script on its way. ``job`` fills up key by key, ``notes`` line by line."""

    def __init__(self, script: Script, file: str) -> None:
        self.script = script
        self.file = file
        self.notes: list[str] = []
        self.job: Plain = {}
        self.array: ArrayPlan | None = None
        self.options = {option.name: option for option in (_in_full(one) for one in script.options)}
        amounts = Amounts(self.options, self.note)
        self.size = size_of(amounts, uses_srun=uses_srun(script.body))

    def build(self) -> SbatchImport:
        self.job["name"] = "job"
        for option in script_order(self.options):
            carry = CARRIED.get(option.name)
            if carry is not None:
                carry(self, option)
            elif option.name in NOT_CARRIED:
                self.note(option, NOT_CARRIED[option.name])
            elif option.name not in SIZES:
                meant = suggest(option.name, {*CARRIED, *NOT_CARRIED, *SIZES}, "option")
                self.note(option, f"is not an option of sbatch we know. {meant}")
        self._carry_size(self.size)
        self._carry_body(self.size)
        for line in self.script.late_lines:
            self.say(line, "stands after the first command; Slurm ignores it and so do we")
        return SbatchImport(document_yaml=write_job(self.job), notes=tuple(self.notes))

    def note(self, option: SbatchOption, text: str) -> None:
        value = f"={option.value[:60]}" if option.value else ""
        self.say(option.line, f"--{option.name[:40]}{value} {text}")

    def say(self, line: int, text: str) -> None:
        self.notes.append(f"{self.file}:{line}: {text.rstrip('.')}.")

    def _carry_size(self, size: Size) -> None:
        if size.tasks > 1:
            self.job["num_nodes"] = size.tasks
        if size.min_tasks:
            self.job["min_nodes"] = size.min_tasks
        resources = {**as_resources(size), **self.job.pop("resources", {})}
        if resources:
            self.job["resources"] = resources
        if size.tasks > 1:
            self.notes.append(
                f"{self.file}: the script runs in each of the {size.tasks:,} tasks; under Slurm "
                "only what srun starts does."
            )

    def _carry_body(self, size: Size) -> None:
        name = self.job["name"]
        before, unknown = prologue(self.script.body, name, size, self.array)
        for one in unknown:
            self.notes.append(f"{self.file}: the script uses {one}, which is not set here.")
        if re.search(r"^\s*(module|ml)\s", self.script.body, re.MULTILINE):
            self.notes.append(f"{self.file}: 'module' must be there on the nodes of the fleet too.")
        if re.search(r"\bmpi(run|exec)\b", self.script.body):
            self.notes.append(
                f"{self.file}: mpirun finds only the node it runs on; torchrun variables are set."
            )
        self.job["run"] = self._commands(before)

    def _commands(self, before: str) -> str:
        words = self.script.interpreter.removeprefix("/usr/bin/env").split()
        program = words[0].rpartition("/")[2] if words else "bash"
        if not words:
            self.notes.append(f"{self.file}:1: there is no '#!' line; bash runs it.")
        if any(re.fullmatch(r"-[a-z]*l[a-z]*|--login", word) for word in words[1:]):
            self.notes.append(f"{self.file}:1: the login shell's profile is not read.")
        if program not in SHELLS and uses_srun(self.script.body):
            self.notes.append(
                f"{self.file}: {program} finds no srun here: call the program itself."
            )
        body = self.script.body.rstrip() + "\n"
        start = f"{before}\n" if before else ""
        if program in BASH_LIKE:
            flags = "".join(re.findall(r"[eux]", "".join(words[1:])))
            return f"{start}set -{flags}\n{body}" if flags else f"{start}{body}"
        called = f"{' '.join(words)} /dev/stdin <<'{END}'\n"
        if program in SHELLS:
            return f"{called}{start}{body}{END}\n"
        return f"{start}{called}{body}{END}\n"


def _in_full(option: SbatchOption) -> SbatchOption:
    """Slurm takes an option by its beginning, if only one begins so."""
    known = {*CARRIED, *NOT_CARRIED, *SIZES}
    meant = [name for name in sorted(known) if name.startswith(option.name)]
    if option.name in known or len(option.name) < 2 or len(meant) != 1:
        return option
    return replace(option, name=meant[0])


def script_order(options: dict[str, SbatchOption]) -> list[SbatchOption]:
    """Of an option that stands twice the last counts, as with Slurm."""
    return sorted(options.values(), key=lambda option: (option.line, option.name))


# -- options that have a counterpart -----------------------------------------------------------------


def _job_name(made: _Import, option: SbatchOption) -> None:
    clean = re.sub(r"[^A-Za-z0-9._-]+", "-", option.value).strip("-._")[:128]
    made.job["name"] = clean or "job"
    if clean != option.value:
        made.note(option, f"is written {made.job['name']!r} here")


def _time(made: _Import, option: SbatchOption) -> None:
    """``min``, ``min:s``, ``h:min:s``, ``d-h``, ``d-h:min``, ``d-h:min:s``."""
    if option.value.upper() in ("INFINITE", "UNLIMITED", "0"):
        return
    found = _TIME.match(option.value)
    if found is None:
        made.note(option, "is not a time; write 'max_hours' by hand")
        return
    days, one, two, three = (int(part) if part else None for part in found.groups())
    if days is not None:
        total = days * DAY_MS + (one or 0) * HOUR_MS + (two or 0) * MINUTE_MS
        total += (three or 0) * SECOND_MS
    elif three is not None:
        total = (one or 0) * HOUR_MS + (two or 0) * MINUTE_MS + three * SECOND_MS
    else:
        total = (one or 0) * MINUTE_MS + (two or 0) * SECOND_MS
    made.job["max_hours"] = exact_duration(total)


def _array(made: _Import, option: SbatchOption) -> None:
    spec, percent, at_once = option.value.partition("%")
    values: list[int] = []
    for part in spec.split(","):
        found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?(?::(\d{1,9}))?", part.strip())
        if found is None:
            made.note(option, "is not a list of numbers; write 'array' by hand")
            return
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        numbers = range(first, last + 1, max(1, step))
        if len(numbers) + len(values) > MOST_ARRAY:
            raise UserError(
                f"{made.file}:{option.line}: --array={option.value[:60]} has more than "
                f"{MOST_ARRAY:,} members.",
                fix=f"Submit it in parts of at most {MOST_ARRAY:,}.",
                code="array-size",
            )
        values += numbers
    if not values:
        made.note(option, "names no member; write 'array' by hand")
        return
    made.array = ArrayPlan(values=tuple(values))
    made.job["array"] = len(values)
    if percent:
        made.note(option, f"runs at most {at_once} at once; here quota and priority decide that")


def _signal(made: _Import, option: SbatchOption) -> None:
    found = re.fullmatch(r"(?:[BR]+:)?(\w+)(?:@(\d{1,6}))?", option.value)
    numbers = {"10": "USR1", "12": "USR2", "15": "TERM", "2": "INT", "1": "HUP"}
    try:
        name = stop_signal(numbers.get(found[1], found[1]) if found else option.value)
    except InvalidValue:
        made.note(option, "is not a signal we can send; write 'checkpoint.signal' by hand")
        return
    made.job["checkpoint"] = {"signal": name}
    seconds = int(found[2]) if found and found[2] else 60
    made.job["grace"] = f"{min(seconds, MOST_GRACE_SECONDS)} s"
    made.note(option, "is sent when the job is asked to stop, not before max_hours is over")


def _export(made: _Import, option: SbatchOption) -> None:
    envs: dict[str, str] = {}
    for part in option.value.split(","):
        name, equals, value = part.partition("=")
        if name in ("ALL", "NONE", "NIL", ""):
            if name == "ALL":
                made.note(
                    option, "would send your own environment; here it stays: name what is needed"
                )
            continue
        try:
            variable(name)
        except InvalidValue as wrong:
            made.note(option, f"{name}: {wrong.problem}. {wrong.fix.rstrip('.')}")
            continue
        if equals:
            envs[name] = value
        else:
            made.note(option, f"{name}: give its value with '--env {name}'")
    if envs:
        made.job["envs"] = envs


def _constraint(made: _Import, option: SbatchOption) -> None:
    """Features are often GPU models; then they say which."""
    words = [word.strip("[]() ") for word in option.value.split("|")]
    try:
        models = [find_gpu_model(word).name for word in words]
    except UserError:
        made.note(option, "is a feature of Slurm nodes; write 'resources.node_labels' for it")
        return
    size = made.size
    if size.gpus and size.gpu_model is None:
        asked = [f"{model}:{size.gpus}" for model in models]
        made.job["resources"] = {"accelerators": asked if len(asked) > 1 else asked[0]}


def _no_requeue(made: _Import, _option: SbatchOption) -> None:
    made.job["preemptible"] = False


def _requeue(made: _Import, _option: SbatchOption) -> None:
    made.job["preemptible"] = True


def _tmp(made: _Import, _option: SbatchOption) -> None:
    mib = Amounts(made.options, made.note).mib("tmp")
    if mib:
        made.job.setdefault("resources", {})["disk_size"] = f"{round(mib)} MiB"


def _spread(made: _Import, _option: SbatchOption) -> None:
    made.job["spread"] = "node"


def _queue(made: _Import, option: SbatchOption) -> None:
    made.note(option, "says who asks; here that is the queue: write 'queue' or give --queue")


def _dependency(made: _Import, option: SbatchOption) -> None:
    kind = option.value.partition(":")[0]
    if kind == "afterok":
        made.note(option, "names jobs of Slurm; write 'depends_on' with the ids they have here")
    else:
        made.note(option, f"({kind}) has no counterpart; 'depends_on' waits for success only")


CARRIED: dict[str, Callable[[_Import, SbatchOption], None]] = {
    "account": _queue,
    "array": _array,
    "constraint": _constraint,
    "dependency": _dependency,
    "export": _export,
    "job-name": _job_name,
    "no-requeue": _no_requeue,
    "partition": _queue,
    "qos": _queue,
    "requeue": _requeue,
    "signal": _signal,
    "spread-job": _spread,
    "time": _time,
    "tmp": _tmp,
}
SIZES = frozenset(
    {"nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "cpus-per-gpu", "mem", "mem-per-cpu"}
    | {"mem-per-gpu", "gres", "gpus", "gpus-per-node", "gpus-per-task"}
)
_LOGS = "is not needed: 'bursar logs JOB' shows both streams of every task"
_NODES = "names machines of the Slurm cluster; write 'resources.node_labels' for it"
_BINDING = "is left to the node"
_LATER = "is not carried over"
NOT_CARRIED: dict[str, str] = {
    **dict.fromkeys(("output", "error", "open-mode"), _LOGS),
    **dict.fromkeys(("mail-type", "mail-user"), "is not carried over: no mail is sent"),
    **dict.fromkeys(("nodelist", "exclude", "nodefile", "clusters", "cluster"), _NODES),
    **dict.fromkeys(("cpu-bind", "gpu-bind", "mem-bind", "distribution", "hint"), _BINDING),
    **dict.fromkeys(("threads-per-core", "sockets-per-node", "cores-per-socket"), _BINDING),
    **dict.fromkeys(("ntasks-per-socket", "ntasks-per-core", "ntasks-per-gpu"), _BINDING),
    **dict.fromkeys(("gpu-freq", "cpu-freq", "core-spec", "gres-flags", "mincpus"), _BINDING),
    **dict.fromkeys(("begin", "hold", "input", "licenses", "reservation", "nice"), _LATER),
    **dict.fromkeys(("comment", "wckey", "verbose", "quiet", "parsable", "wait"), _LATER),
    **dict.fromkeys(("get-user-env", "profile", "acctg-freq", "bb", "bbf", "network"), _LATER),
    **dict.fromkeys(("no-kill", "overcommit", "contiguous", "use-min-nodes", "reboot"), _LATER),
    **dict.fromkeys(
        ("kill-on-invalid-dep", "power", "priority", "propagate", "thread-spec"), _LATER
    ),
    **dict.fromkeys(("uid", "gid"), "is not carried over: jobs run as the one who submits"),
    **dict.fromkeys(("exclusive", "oversubscribe"), "has no counterpart: ask for what is used"),
    "chdir": "is a folder there; write 'workdir' for one that is sent along",
    "deadline": "is not carried over; write 'deadline' with a zone",
    "switches": "is not carried over; write 'topology' to keep tasks near each other",
    "container-image": "is not carried over: jobs run on the node as it is",
    "container-mounts": "is not carried over: jobs run on the node as it is",
    "delay-boot": _LATER,
    "wait-all-nodes": _LATER,
    "ignore-pbs": _LATER,
    "export-file": "is not carried over; write 'envs'",
    "prefer": "is a feature of Slurm nodes; write 'resources.node_labels' for it",
}
