"""Generates the scripts that run an attempt on Slurm. Pure.

The batch script runs a single task itself, at the cost of one fork. It runs a gang by ``srun``, with
``node.sh`` for the tasks of each node. What happens for every job uses only bash builtins: extra processes
would cost more than many jobs do.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bursar.engines.task_ranks import ALLOWED_STOP_SIGNALS, TaskRank, ranked_tasks, task_environment
from bursar.model.jobs.run_spec import RunSpec
from bursar.ports import StartOrder

FIRST_PORT, PORTS = 20_000, 12_000
"""Rendezvous ports of gangs: below the kernel's ephemeral ports."""
CANNOT_CLAIM = 75
"""The exit code of a script that cannot write to the shared folder."""

# LC_ALL is not exported: it only keeps bash from loading locale files when LANG is set below.
_SIGNALS = " ".join(name.removeprefix("SIG") for name in ALLOWED_STOP_SIGNALS)

# A shell ends at once on a signal, but the program that it started may still be saving its work. After the
# grace period it is killed from outside.
_WAIT_FOR_GROUP = """wait_for_group() {
  [ -n "$received" ] && [ "$code" -gt 128 ] && kill -0 -- "-$1" 2>/dev/null || return
  exec 8<> <(:)
  while kill -0 -- "-$1" 2>/dev/null; do read -r -t 0.1 -u 8 _; done
}
"""

_HEAD = f"""#!/bin/bash
unset LC_ALL
LC_ALL=C
export -n SHELL
received= pid= begun=
for one in {_SIGNALS}; do trap "on_signal $one" $one; done
now() {{ at=${{EPOCHREALTIME:-$(date +%s)}}; }}
finish() {{
  now
  printf 'ended %s %s %s %s\\n' "$at" "$1" "${{received:--}}" "$2" >>"$A/claim"
  echo "$K" >>"$N"
  [ "$1" = - ] && exit 1
  exit "$1"
}}
begin() {{ now; begun=$at; echo "began $at" >>"$A/claim"; echo "$K" >>"$N"; }}
await() {{
  while :; do
    wait "$1"
    kill -0 "$1" 2>/dev/null || break
  done
  wait "$1"
  code=$?
  wait_for_group "$1"
}}
{_WAIT_FOR_GROUP}umask 077
set -C
if ! {{ echo "$SLURM_JOB_ID" >"$A/claim"; }} 2>/dev/null; then
  [ -e "$A/claim" ] && exit 0
  echo "bursar: $SLURMD_NODENAME cannot write to $A" >&2
  exit {CANNOT_CLAIM}
fi
set +C -m
[ -e "$A/stop" ] && finish - 'stopped as ordered, before its tasks were started'
"""

_SINGLE_TASK_SIGNALS = """on_signal() { received=$1; [ -n "$pid" ] && kill -s "$1" -- "-$pid" 2>/dev/null; }
"""

_GANG_SIGNALS = """forwarded= stage=
on_signal() { received=$1 forwarded=; [ "$stage" = setup ] && forward; }
forward() { forwarded=1; scancel --signal="$received" "$SLURM_JOB_ID" 2>/dev/null; }
"""

_FIND_PROGRAM = """program=$(type -P -- "$word") || \
finish 127 "not started: the program $word is not on the nodes of the job"
"""

_GANG_WATCH = """pid=$!
exec 9<> <(:)
kill_at=
while kill -0 "$pid" 2>/dev/null; do
  read -r -t 0.2 -u 9 _
  is_up && begin_once
  [ -n "$received" ] && [ -z "$forwarded" ] && is_up && forward
  if [ -z "$kill_at" ] && [ -e "$A/failed" ]; then
    kill_at=$((SECONDS + grace))
    scancel --signal="$stop_signal" "$SLURM_JOB_ID" 2>/dev/null
  elif [ -n "$kill_at" ] && [ "$SECONDS" -ge "$kill_at" ]; then
    kill_at=$((SECONDS + 1))
    scancel --signal=KILL "$SLURM_JOB_ID" 2>/dev/null
  fi
done
await "$pid"
is_up && begin_once
if [ -e "$A/failed" ]; then
  read -r code detail <"$A/failed"
  finish "$code" "$detail"
fi
[ "$code" = 0 ] || finish "$code" "srun ended with $code; see $A/batch.log"
is_up || finish - "not started: srun did not reach all nodes; see $A/batch.log"
finish 0
"""

_NODE = f"""#!/bin/bash
received= pids=() labels=()
{_WAIT_FOR_GROUP}on_signal() {{
  received=$1
  for one in "${{pids[@]}}"; do kill -s "$1" -- "-$one" 2>/dev/null; done
}}
for one in {_SIGNALS}; do trap "on_signal $one" $one; done
umask 077
set -m
IFS=, read -r -a devices <<<"$CUDA_VISIBLE_DEVICES"
first_failure() {{
  set -C
  {{
    printf '%s %s on node %s failed first%s\\n' "$1" "$2" "$SLURMD_NODENAME" "$3" >"$A/failed"
  }} 2>/dev/null
  set +C
}}
own_devices() {{
  local one own=()
  for one; do own+=("${{devices[one]}}"); done
  local IFS=,
  export CUDA_VISIBLE_DEVICES="${{own[*]}}"
}}
wait_for_all() {{
  while [ "${{#pids[@]}}" -gt 0 ]; do
    wait -n "${{pids[@]}}" 2>/dev/null
    for one in "${{!pids[@]}}"; do
      kill -0 "${{pids[one]}}" 2>/dev/null && continue
      wait "${{pids[one]}}"
      code=$?
      wait_for_group "${{pids[one]}}"
      [ "$code" = 0 ] || first_failure "$code" "${{labels[one]}}" "$1"
      unset "pids[one]"
    done
  done
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptContext:
    """Paths and addresses that the scripts of an attempt use."""

    folder: str
    """The attempt's folder."""
    key: str
    messages: str
    """The folder with a file for each node: the key is appended when the attempt's folder changes."""
    bundles: str
    path: str
    addresses: Mapping[str, str]
    """Addresses of nodes, where they differ from their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripts:
    """The batch script, and the files that must be written to the attempt's folder first."""

    batch: str
    files: Mapping[str, str]
    nodes: tuple[str, ...]
    """In order of node rank."""


def make_scripts(
    order: StartOrder, context: ScriptContext, components: tuple[tuple[str, ...], ...]
) -> Scripts:
    """``components`` are the nodes of each component of the Slurm job."""
    members = ranked_tasks(order)
    nodes = tuple(dict.fromkeys(member.task.node for member in members))
    recipe = order.recipe
    files: dict[str, str] = {}
    if recipe.secrets:
        files["secrets"] = "".join(_exports(recipe.secrets))
    if not recipe.argv:
        if not plain_command(recipe.run, recipe.shell):
            files["run.sh"] = _with_newline(recipe.run)
        if recipe.setup:
            files["setup.sh"] = _with_newline(recipe.setup)
    paths = {"A": context.folder, "K": context.key, "N": f"{context.messages}/"}
    path_lines = "".join(f"{name}={shlex.quote(value)}\n" for name, value in paths.items())
    path_lines += "N+=$SLURMD_NODENAME\n"
    text = [*_exports(recipe.envs), *_exports(_shared_variables(order, members, nodes, context))]
    text += _unpack_lines(order, context, len(nodes))
    if len(members) == 1:
        text += _single_task_lines(order, members[0])
        head = _HEAD.replace("begun=\n", f"begun=\n{_SINGLE_TASK_SIGNALS}", 1)
    else:
        files["node.sh"] = "".join([_NODE, *_node_lines(order, members, nodes)])
        text += _gang_lines(order, len(nodes), components)
        head = _HEAD.replace("begun=\n", f"begun=\n{_GANG_SIGNALS}", 1)
    # The paths are needed before the claim, the rest only after it.
    batch = head.replace("umask 077\n", f"{path_lines}umask 077\n", 1) + "".join(text)
    return Scripts(batch=batch, files=files, nodes=nodes)


def _with_newline(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


def _exports(values: Mapping[str, str]) -> Iterator[str]:
    for name, value in values.items():
        yield f"export {name}={shlex.quote(value)}\n"


def _shared_variables(
    order: StartOrder, members: list[TaskRank], nodes: tuple[str, ...], context: ScriptContext
) -> dict[str, str]:
    """Variables of all tasks; each task adds its own."""
    first = task_environment(order, members[0], 0)
    ips = [context.addresses.get(member.task.node, member.task.node) for member in members]
    return {
        "PATH": context.path,
        "LANG": "C.UTF-8",
        **{
            name: value
            for name, value in first.items()
            if name not in ("BURSAR_NODE", "BURSAR_TASK")
        },
        "BURSAR_SAVED_FILE": f"{context.folder}/saved",
        "MASTER_ADDR": context.addresses.get(nodes[0], nodes[0]),
        "WORLD_SIZE": str(len(members)),
        "SKYPILOT_NUM_NODES": str(len(members)),
        "SKYPILOT_NODE_IPS": "\n".join(ips),
    }


def _unpack_lines(order: StartOrder, context: ScriptContext, ranks: int) -> Iterator[str]:
    """Unpack the archives, then load the secrets and remove them from disk before user code runs."""
    recipe = order.recipe
    yield f"export MASTER_PORT=$(({FIRST_PORT} + SLURM_JOB_ID % {PORTS}))\n"
    bundles = [("", recipe.workdir)] if recipe.workdir else []
    bundles += [(mount.target.removeprefix("~/"), mount.bundle) for mount in recipe.mounts]
    for rank in range(ranks):
        for target, bundle in bundles:
            folder = shlex.quote(f"{context.folder}/work-{rank}/{target}")
            archive = shlex.quote(f"{context.bundles}/{bundle}")
            yield (
                f"mkdir -p {folder} && tar -xzf {archive} -C {folder} --no-same-owner || "
                "finish - 'not started: its files could not be unpacked; see batch.log'\n"
            )
    if recipe.secrets:
        yield '. "$A/secrets"; rm -f "$A/secrets"\n'


# -- one task --------------------------------------------------------------------------------------


def _single_task_lines(order: StartOrder, member: TaskRank) -> Iterator[str]:
    recipe = order.recipe
    names = {
        "HOME": "$A/work-0",
        "TMPDIR": "$A/scratch-0",
    }
    yield "".join(f'export {name}="{value}"\n' for name, value in names.items())
    yield from _exports(_rank_variables(order, member, 0, (0, 1, 0)))
    yield _device_lines(member)
    yield 'cd "$A/work-0" || finish - "not started: $A/work-0 does not exist"\n'
    streams = '</dev/null >>"$A/task-0.out" 2>>"$A/task-0.err" &\npid=$!\n'
    streams += '[ -z "$received" ] || on_signal "$received"\nawait "$pid"\n'
    if recipe.setup and not recipe.argv:
        yield f'{shlex.quote(recipe.shell)} "$A/setup.sh" {streams}pid=\n'
        yield (
            '[ -z "$received" ] || finish "$code" "before its tasks were started"\n'
            '[ "$code" = 0 ] || finish "$code" "setup failed; its tasks were not started"\n'
        )
    if recipe.argv:
        yield f"word={shlex.quote(recipe.argv[0])}\n{_FIND_PROGRAM}"
        command = " ".join(['"$program"', *map(shlex.quote, recipe.argv[1:])])
    elif plain := plain_command(recipe.run, recipe.shell):
        # ``command`` skips the functions above, even with the same name.
        command = f"command {' '.join(plain)}"
    else:
        command = f'{shlex.quote(recipe.shell)} "$A/run.sh"'
    yield f'begin\n{command} {streams}finish "$code"\n'


def _rank_variables(
    order: StartOrder, member: TaskRank, rank: int, position: tuple[int, int, int]
) -> dict[str, str]:
    local_rank, local_size, node_rank = position
    variables = task_environment(order, member, rank)
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(local_size),
        "NODE_RANK": str(node_rank),
        "BURSAR_NODE": variables["BURSAR_NODE"],
        "BURSAR_TASK": variables["BURSAR_TASK"],
        "BURSAR_GROUP": variables["BURSAR_GROUP"],
        "SKYPILOT_NODE_RANK": str(rank),
        "SKYPILOT_NUM_GPUS_PER_NODE": str(devices_per_task(member)),
    }


def devices_per_task(member: TaskRank) -> int:
    """Number of devices that a task sees: whole GPUs or MIG instances, or the one GPU it shares."""
    task = member.task
    if task.shares:
        return 1
    return (len(task.gpus) or len(task.slices)) // task.count


def _device_lines(member: TaskRank) -> str:
    """Slurm sets the variable for the node; for a task without devices it must be empty, not unset."""
    if not devices_per_task(member):
        return "export CUDA_VISIBLE_DEVICES=\n"
    if member.task.shares:
        share = member.task.shares[member.index]
        return f"export CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={share.percent}\n"
    return ""


# -- gangs -----------------------------------------------------------------------------------------


def _gang_lines(
    order: StartOrder, nodes: int, components: tuple[tuple[str, ...], ...]
) -> Iterator[str]:
    recipe = order.recipe
    # Components may request memory in different ways; srun rejects more than one of these variables.
    yield "export A\nunset SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU SLURM_MEM_PER_NODE\n"
    yield f"grace={recipe.grace_seconds} stop_signal={recipe.stop_signal.removeprefix('SIG')}\n"
    yield (
        f'is_up() {{ set -- "$A"/up.*; [ -e "$1" ] && [ $# = {nodes} ]; }}\n'
        'begin_once() { [ -n "$begun" ] || begin; }\n'
    )
    if recipe.argv:
        yield f"word={shlex.quote(recipe.argv[0])}\n{_FIND_PROGRAM}"
    if recipe.setup and not recipe.argv:
        yield f'stage=setup\n{_srun(components, "setup")} &\npid=$!\nawait "$pid"\nstage=\n'
        yield (
            'if [ -e "$A/failed" ]; then read -r code detail <"$A/failed"; finish "$code" "$detail"; fi\n'
            '[ -z "$received" ] || finish - "before its tasks were started"\n'
            '[ "$code" = 0 ] || finish "$code" "setup failed; its tasks were not started"\n'
        )
    yield f"{_srun(components, 'run')} &\n{_GANG_WATCH}"


def _srun(components: tuple[tuple[str, ...], ...], stage: str) -> str:
    """The command that runs ``node.sh`` once on each node."""
    options = "--kill-on-bad-exit=0 --wait=0 --cpu-bind=none --mem=0 --export=ALL"
    if len(components) == 1:
        count = len(components[0])
        return (
            f'srun {options} --nodes={count} --ntasks={count} bash "$A/node.sh" {stage} </dev/null'
        )
    commands = [
        f'{options} --het-group={number} --nodes={len(nodes)} --ntasks={len(nodes)} bash "$A/node.sh" {stage}'
        for number, nodes in enumerate(components)
    ]
    return f"srun {' : '.join(commands)} </dev/null"


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeTasks:
    """The tasks of a gang on one node, with their ranks."""

    order: StartOrder
    node: str
    node_rank: int
    members: tuple[tuple[int, TaskRank], ...]

    def device_positions(self, index: int) -> list[int]:
        """Positions of a task's devices in the list that Slurm sets for the node, which is sorted."""
        task, number = self.members[index][1].task, self.members[index][1].index
        each = devices_per_task(self.members[index][1])
        if task.slices:
            earlier = [member for _, member in self.members[:index] if member.task.slices]
            first = sum(map(devices_per_task, earlier))
            return list(range(first, first + each))
        node_gpus = sorted({gpu for _, member in self.members for gpu in member.task.gpus})
        return [node_gpus.index(gpu) for gpu in task.gpus[number * each : (number + 1) * each]]

    def start_lines(self, index: int, command: str, label: str) -> str:
        """Lines that start one process in the background, with its output files."""
        rank, member = self.members[index]
        names = _rank_variables(
            self.order, member, rank, (index, len(self.members), self.node_rank)
        )
        folders = f'HOME="$A/work-{self.node_rank}" TMPDIR="$A/scratch-{self.node_rank}"'
        devices = _device_lines(member)
        if not devices:
            devices = f"own_devices {' '.join(map(str, self.device_positions(index)))}\n"
        body = "".join([*_exports(names), f"export {folders}\n", devices])
        streams = f'</dev/null >>"$A/task-{rank}.out" 2>>"$A/task-{rank}.err"'
        return (
            f'(\n{body}cd "$HOME" || exit 1\n{command}\n) {streams} &\n'
            f"pids+=($!) labels+=({shlex.quote(label)})\n"
        )


def _command(recipe: RunSpec) -> str:
    """The command that replaces the shell of one task."""
    if recipe.argv:
        return f"exec {' '.join(map(shlex.quote, recipe.argv))}"
    if plain := plain_command(recipe.run, recipe.shell):
        return f"exec {' '.join(plain)}"
    return f'exec {shlex.quote(recipe.shell)} "$A/run.sh"'


def _node_lines(
    order: StartOrder, members: list[TaskRank], nodes: tuple[str, ...]
) -> Iterator[str]:
    recipe = order.recipe
    shell = shlex.quote(recipe.shell)
    command = _command(recipe)
    yield 'case "$SLURMD_NODENAME/$1" in\n'
    for node_rank, node in enumerate(nodes):
        local = tuple(
            (rank, member) for rank, member in enumerate(members) if member.task.node == node
        )
        tasks = _NodeTasks(order=order, node=node, node_rank=node_rank, members=local)
        if recipe.setup and not recipe.argv:
            yield f"{shlex.quote(node)}/setup)\n"
            yield tasks.start_lines(0, f'exec {shell} "$A/setup.sh"', "setup")
            yield "wait_for_all '; its tasks were not started'\n;;\n"
        yield f"{shlex.quote(node)}/run)\n"
        for index, (rank, _) in enumerate(local):
            yield tasks.start_lines(index, command, f"task {rank}")
        yield f': >"$A/up.{node_rank}"\nwait_for_all\n;;\n'
    yield "esac\nexit 0\n"


# -- scripts that are one command -----------------------------------------------------------------

KNOWN_SHELLS = frozenset({"/bin/bash", "/usr/bin/bash", "/bin/sh", "/usr/bin/sh"})
"""Shells in which a plain command has the same meaning."""

_PLAIN = re.compile(r"[A-Za-z0-9_./][\w./:@+,-]*(?: +[\w./:@%+,=-]+)*", re.ASCII)
"""Words that no shell expands."""
_SHELL_BUILTIN = re.compile(
    r"\.|:|alias|bg|bind|break|builtin|caller|case|cd|command|compgen|complete|compopt|continue|coproc|declare"
    r"|dirs|drop_ids|do|done|elif|else|enable|esac|eval|exec|exit|export|fc|fg|fi|for|function|getopts|hash|help"
    r"|history|if|in|jobs|kill|let|local|logout|mapfile|popd|pushd|pwd|read|readarray|readonly|return|select"
    r"|set|shift|shopt|source|suspend|test|then|time|times|trap|type|typeset|ulimit|umask|unalias|unset|until"
    r"|wait|while"
)
"""Builtins that may behave differently inside our script. ``echo``, ``printf``, ``true`` and ``false`` are
the same everywhere."""


def plain_command(script: str, shell: str) -> tuple[str, ...]:
    """The words of a script that is one plain command, such as ``python train.py``; else none.

    The batch script runs such a command directly: signals reach the program itself, its exit code is the
    job's, and each job needs one process less.
    """
    line = script.strip(" \n")
    if shell not in KNOWN_SHELLS or not _PLAIN.fullmatch(line):
        return ()
    words = tuple(line.split())
    return () if _SHELL_BUILTIN.fullmatch(words[0]) else words
