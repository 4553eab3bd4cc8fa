"""Converts an sbatch script into a job file, with notes about what is not converted.

The commands stay unchanged; ``prologue`` adds the variables and functions of Slurm that they use.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter
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
from bursar.slurm_text import BadSlurmText, parse_duration_ms

Plain = dict[str, Any]
BASH_LIKE = ("bash", "sh", "dash")
SHELLS = (*BASH_LIKE, "zsh", "ksh")
"""Shells that can run the prologue."""
END = "BURSAR_END_OF_SCRIPT"


@dataclass(frozen=True, slots=True, kw_only=True)
class SbatchImport:
    """The job file, and notes for the user about the conversion."""

    document_yaml: str
    notes: tuple[str, ...] = ()


def import_sbatch(text: str, file: str) -> SbatchImport:
    """Convert a batch script into a job file; raises UserError if that is impossible."""
    if "\0" in text or len(text) > 1 << 19:
        fix = "Name a batch script."
        raise UserError(f"{file} is not a script.", fix=fix, code="not-sbatch")
    script = read_script(text, file)
    if not script.body.strip():
        fix = "Write the commands below the #SBATCH lines."
        raise UserError(f"{file} has no commands.", fix=fix, code="not-sbatch")
    return _Conversion(script, file).build()


class _Conversion:
    """The conversion of one script: collects the keys of the job, and notes."""

    def __init__(self, script: Script, file: str) -> None:
        self.script = script
        self.file = file
        self.notes: list[str] = []
        self.job: Plain = {}
        self.array: ArrayPlan | None = None
        self.options = {
            option.name: option for option in (_full_name(one) for one in script.options)
        }
        amounts = Amounts(self.options, self.note)
        self.size = size_of(amounts, uses_srun=uses_srun(script.body))

    def build(self) -> SbatchImport:
        self.job["name"] = "job"
        # By line: as in Slurm, the last value of a repeated option counts.
        for option in sorted(self.options.values(), key=attrgetter("line", "name")):
            convert = CONVERTED.get(option.name)
            if convert is not None:
                convert(self, option)
            elif option.name in NOT_CONVERTED:
                self.note(option, NOT_CONVERTED[option.name])
            elif option.name not in SIZES:
                suggestion = suggest(option.name, {*CONVERTED, *NOT_CONVERTED, *SIZES}, "option")
                self.note(option, f"is not a known option of sbatch. {suggestion}")
        self._convert_size(self.size)
        self._convert_body(self.size)
        for line in self.script.late_lines:
            self._add_note(line, "is after the first command; Slurm ignores it, and so does Bursar")
        return SbatchImport(document_yaml=write_job(self.job), notes=tuple(self.notes))

    def note(self, option: SbatchOption, text: str) -> None:
        value = f"={option.value[:60]}" if option.value else ""
        self._add_note(option.line, f"--{option.name[:40]}{value} {text}")

    def _add_note(self, line: int, text: str) -> None:
        self.notes.append(f"{self.file}:{line}: {text.rstrip('.')}.")

    def _convert_size(self, size: Size) -> None:
        if size.tasks > 1:
            self.job["num_nodes"] = size.tasks
        if size.min_tasks:
            self.job["min_nodes"] = size.min_tasks
        resources = {**as_resources(size), **self.job.pop("resources", {})}
        if resources:
            self.job["resources"] = resources
        if size.tasks > 1:
            self.notes.append(
                f"{self.file}: the script runs in each of the {size.tasks:,} tasks; Slurm runs "
                "only the commands of srun in each."
            )

    def _convert_body(self, size: Size) -> None:
        before, unknown = prologue(self.script.body, self.job["name"], size, self.array)
        for name in unknown:
            self.notes.append(f"{self.file}: the script uses {name}, which is not set here.")
        if re.search(r"^\s*(module|ml)\s", self.script.body, re.MULTILINE):
            self.notes.append(f"{self.file}: 'module' must exist on the nodes of the fleet too.")
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
        command = f"{' '.join(words)} /dev/stdin <<'{END}'\n"
        if program in SHELLS:
            return f"{command}{start}{body}{END}\n"
        return f"{start}{command}{body}{END}\n"


def _full_name(option: SbatchOption) -> SbatchOption:
    """Slurm accepts any unambiguous prefix of an option."""
    known = {*CONVERTED, *NOT_CONVERTED, *SIZES}
    matches = [name for name in sorted(known) if name.startswith(option.name)]
    if option.name in known or len(option.name) < 2 or len(matches) != 1:
        return option
    return replace(option, name=matches[0])


# -- options with a counterpart -----------------------------------------------------------------

Convert = Callable[[_Conversion, SbatchOption], None]


def _job_name(conversion: _Conversion, option: SbatchOption) -> None:
    clean = re.sub(r"[^A-Za-z0-9._-]+", "-", option.value).strip("-._")[:128]
    conversion.job["name"] = clean or "job"
    if clean != option.value:
        conversion.note(option, f"becomes {conversion.job['name']!r}")


def _time(conversion: _Conversion, option: SbatchOption) -> None:
    if option.value.upper() in ("INFINITE", "UNLIMITED", "0"):
        return
    try:
        limit_ms = parse_duration_ms(option.value)
    except BadSlurmText:
        limit_ms = None
    if limit_ms is None:
        conversion.note(option, "is not a time; write 'max_hours' by hand")
    else:
        conversion.job["max_hours"] = exact_duration(limit_ms)


def _array(conversion: _Conversion, option: SbatchOption) -> None:
    spec, percent, at_once = option.value.partition("%")
    values: list[int] = []
    for item in spec.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?(?::(\d{1,9}))?", item.strip())
        if match is None:
            conversion.note(option, "is not a list of numbers; write 'array' by hand")
            return
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        numbers = range(first, last + 1, max(1, step))
        if len(numbers) + len(values) > MOST_ARRAY:
            raise UserError(
                f"{conversion.file}:{option.line}: --array={option.value[:60]} has more than "
                f"{MOST_ARRAY:,} members.",
                fix=f"Submit several arrays of at most {MOST_ARRAY:,} members each.",
                code="array-size",
            )
        values += numbers
    if not values:
        conversion.note(option, "has no member; write 'array' by hand")
        return
    conversion.array = ArrayPlan(values=tuple(values))
    conversion.job["array"] = len(values)
    if percent:
        conversion.note(option, f"runs at most {at_once} at once; here quota and priority limit it")


def _signal(conversion: _Conversion, option: SbatchOption) -> None:
    match = re.fullmatch(r"(?:[BR]+:)?(\w+)(?:@(\d{1,6}))?", option.value)
    numbers = {"10": "USR1", "12": "USR2", "15": "TERM", "2": "INT", "1": "HUP"}
    try:
        name = stop_signal(numbers.get(match[1], match[1]) if match else option.value)
    except InvalidValue:
        conversion.note(
            option, "is not a signal that Bursar can send; write 'checkpoint.signal' by hand"
        )
        return
    conversion.job["checkpoint"] = {"signal": name}
    seconds = int(match[2]) if match and match[2] else 60
    conversion.job["grace"] = f"{min(seconds, MOST_GRACE_SECONDS)} s"
    conversion.note(
        option, "is sent when the job is stopped, not some time before max_hours is over"
    )


def _export(conversion: _Conversion, option: SbatchOption) -> None:
    envs: dict[str, str] = {}
    for item in option.value.split(","):
        name, equals, value = item.partition("=")
        if name in ("ALL", "NONE", "NIL", ""):
            if name == "ALL":
                conversion.note(
                    option, "would send your own environment; name the variables that are needed"
                )
            continue
        try:
            variable(name)
        except InvalidValue as error:
            conversion.note(option, f"{name}: {error.problem}. {error.fix.rstrip('.')}")
            continue
        if equals:
            envs[name] = value
        else:
            conversion.note(option, f"{name}: pass its value with '--env {name}'")
    if envs:
        conversion.job["envs"] = envs


def _constraint(conversion: _Conversion, option: SbatchOption) -> None:
    """A feature is often the name of a GPU model."""
    words = [word.strip("[]() ") for word in option.value.split("|")]
    try:
        models = [find_gpu_model(word).name for word in words]
    except UserError:
        conversion.note(option, "is a feature of Slurm nodes; write 'resources.node_labels' for it")
        return
    size = conversion.size
    if size.gpus and size.gpu_model is None:
        choices = [f"{model}:{size.gpus}" for model in models]
        conversion.job["resources"] = {"accelerators": choices if len(choices) > 1 else choices[0]}


def _sets(key: str, value: Any) -> Convert:
    """For an option whose presence alone sets a key of the job."""

    def convert(conversion: _Conversion, _option: SbatchOption) -> None:
        conversion.job[key] = value

    return convert


def _tmp(conversion: _Conversion, _option: SbatchOption) -> None:
    mib = Amounts(conversion.options, conversion.note).mib("tmp")
    if mib:
        conversion.job.setdefault("resources", {})["disk_size"] = f"{round(mib)} MiB"


def _dependency(conversion: _Conversion, option: SbatchOption) -> None:
    kind = option.value.partition(":")[0]
    if kind == "afterok":
        conversion.note(option, "names Slurm jobs; write 'depends_on' with their ids in Bursar")
    else:
        conversion.note(option, f"({kind}) has no counterpart; 'depends_on' waits for success only")


CONVERTED: dict[str, Convert] = {
    "array": _array,
    "constraint": _constraint,
    "dependency": _dependency,
    "export": _export,
    "job-name": _job_name,
    "no-requeue": _sets("preemptible", False),
    "requeue": _sets("preemptible", True),
    "signal": _signal,
    "spread-job": _sets("spread", "node"),
    "time": _time,
    "tmp": _tmp,
}
SIZES = frozenset(
    {"nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "cpus-per-gpu", "mem", "mem-per-cpu"}
    | {"mem-per-gpu", "gres", "gpus", "gpus-per-node", "gpus-per-task"}
)
_NOTES = {
    "is not needed: 'bursar logs JOB' shows both streams of every task": "output error open-mode",
    "is not converted: no mail is sent": "mail-type mail-user",
    "is replaced by the queue: write 'queue' or pass --queue": "account partition qos",
    "names machines of the Slurm cluster; write 'resources.node_labels' for it": (
        "nodelist exclude nodefile clusters cluster"
    ),
    "is left to the node": (
        "cpu-bind gpu-bind mem-bind distribution hint threads-per-core sockets-per-node "
        "cores-per-socket ntasks-per-socket ntasks-per-core ntasks-per-gpu gpu-freq cpu-freq "
        "core-spec gres-flags mincpus"
    ),
    "is not converted": (
        "begin hold input licenses reservation nice comment wckey verbose quiet parsable wait "
        "get-user-env profile acctg-freq bb bbf network no-kill overcommit contiguous use-min-nodes "
        "reboot kill-on-invalid-dep power priority propagate thread-spec delay-boot wait-all-nodes "
        "ignore-pbs"
    ),
    "is not converted: jobs run as the submitting user": "uid gid",
    "is not converted: jobs run on the node as it is": "container-image container-mounts",
    "is not converted; write 'deadline' with a zone": "deadline",
    "is not converted; write 'topology' to place tasks near each other": "switches",
    "is not converted; write 'envs'": "export-file",
    "has no counterpart: request what the job uses": "exclusive oversubscribe",
    "is a folder of the Slurm cluster; write 'workdir' to send one with the job": "chdir",
    "is a feature of Slurm nodes; write 'resources.node_labels' for it": "prefer",
}
"""Options by the note about them."""
NOT_CONVERTED = {name: note for note, names in _NOTES.items() for name in names.split()}
