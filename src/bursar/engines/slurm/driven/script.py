"""The scripts that run an attempt on Slurm, as text. Pure.

One task on one node is run by the batch script itself, which costs a fork. A gang is run by ``srun``: the
batch script is its head, and ``node.sh`` runs the tasks of each node. Only what bash has built in is used
where it happens for every job: a process for each small thing would cost more than many jobs do.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bursar.engines.slurm.driven.plain_command import plain_command
from bursar.engines.task_ranks import ALLOWED_STOP_SIGNALS, TaskRank, ranked_tasks, task_environment
from bursar.model.jobs.run_spec import RunSpec
from bursar.ports import StartOrder

FIRST_PORT, PORTS = 20_000, 12_000
"""Where the ranks of a gang meet: below what the kernel hands out by itself."""
CANNOT_MARK = 75
"""The exit code of a script that cannot write to the shared folder."""

# LC_ALL is not exported: it only keeps bash from reading the files of a language when LANG is set below.
_SIGNALS = " ".join(name.removeprefix("SIG") for name in ALLOWED_STOP_SIGNALS)

# A shell that is asked to stop dies at once; the program that it started may still be saving its work. What
# takes too long is killed from outside.
_LINGER = """linger() {
  [ -n "$told" ] && [ "$code" -gt 128 ] && kill -0 -- "-$1" 2>/dev/null || return
  exec 8<> <(:)
  while kill -0 -- "-$1" 2>/dev/null; do read -r -t 0.1 -u 8 _; done
}
"""

_HEAD = f"""#!/bin/bash
unset LC_ALL
LC_ALL=C
export -n SHELL
told= pid= begun=
for one in {_SIGNALS}; do trap "heard $one" $one; done
now() {{ at=${{EPOCHREALTIME:-$(date +%s)}}; }}
finish() {{
  now
  printf 'ended %s %s %s %s\\n' "$at" "$1" "${{told:--}}" "$2" >>"$A/taken"
  echo "$K" >>"$N"
  [ "$1" = - ] && exit 1
  exit "$1"
}}
begin() {{ now; begun=$at; echo "began $at" >>"$A/taken"; echo "$K" >>"$N"; }}
await() {{
  while :; do
    wait "$1"
    kill -0 "$1" 2>/dev/null || break
  done
  wait "$1"
  code=$?
  linger "$1"
}}
{_LINGER}umask 077
set -C
if ! {{ echo "$SLURM_JOB_ID" >"$A/taken"; }} 2>/dev/null; then
  [ -e "$A/taken" ] && exit 0
  echo "bursar: $SLURMD_NODENAME cannot write to $A" >&2
  exit {CANNOT_MARK}
fi
set +C -m
[ -e "$A/stop" ] && finish - 'stopped as ordered, before its tasks were started'
"""

_ALONE = """heard() { told=$1; [ -n "$pid" ] && kill -s "$1" -- "-$pid" 2>/dev/null; }
"""

_GANG = """passed= stage=
heard() { told=$1 passed=; [ "$stage" = setup ] && pass_on; }
pass_on() { passed=1; scancel --signal="$told" "$SLURM_JOB_ID" 2>/dev/null; }
"""

_FIND = """program=$(type -P -- "$word") || \
finish 127 "not started: no program is called $word on the nodes of the job"
"""

_GANG_WATCH = """pid=$!
exec 9<> <(:)
kill_at=
while kill -0 "$pid" 2>/dev/null; do
  read -r -t 0.2 -u 9 _
  is_up && begin_once
  [ -n "$told" ] && [ -z "$passed" ] && is_up && pass_on
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
told= pids=() labels=()
{_LINGER}heard() {{ told=$1; for one in "${{pids[@]}}"; do kill -s "$1" -- "-$one" 2>/dev/null; done; }}
for one in {_SIGNALS}; do trap "heard $one" $one; done
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
      linger "${{pids[one]}}"
      [ "$code" = 0 ] || first_failure "$code" "${{labels[one]}}" "$1"
      unset "pids[one]"
    done
  done
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptParts:
    """What the scripts of all attempts share."""

    folder: str
    """Of this attempt."""
    key: str
    news: str
    """The folder in which each node has a file: there the key is added when there is something to read."""
    bundles: str
    path: str
    addresses: Mapping[str, str]
    """Of nodes, where they are not their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripts:
    """What is submitted, and the files that must be in the attempt's folder before."""

    batch: str
    files: Mapping[str, str]
    nodes: tuple[str, ...]
    """In order of node rank."""


def scripts_of(
    order: StartOrder, around: ScriptParts, parts: tuple[tuple[str, ...], ...]
) -> Scripts:
    """``parts`` are the nodes of each part of the Slurm job, as they are submitted."""
    seats = ranked_tasks(order)
    nodes = tuple(dict.fromkeys(seat.task.node for seat in seats))
    recipe = order.recipe
    files: dict[str, str] = {}
    if recipe.secrets:
        files["secrets"] = "".join(_exports(recipe.secrets))
    if not recipe.argv:
        if not plain_command(recipe.run, recipe.shell):
            files["run.sh"] = _ended_line(recipe.run)
        if recipe.setup:
            files["setup.sh"] = _ended_line(recipe.setup)
    places = {"A": around.folder, "K": around.key, "N": f"{around.news}/"}
    text = ["".join(f"{name}={shlex.quote(value)}\n" for name, value in places.items())]
    text[0] += "N+=$SLURMD_NODENAME\n"
    text += _exports(recipe.envs)
    text += _exports(_shared_names(order, seats, nodes, around))
    text += _lay_out(order, around, len(nodes))
    if len(seats) == 1:
        text += _alone(order, seats[0])
        head = _HEAD.replace("begun=\n", f"begun=\n{_ALONE}", 1)
    else:
        files["node.sh"] = "".join([_NODE, *_node_lines(order, seats, nodes)])
        text += _gang(order, len(nodes), parts)
        head = _HEAD.replace("begun=\n", f"begun=\n{_GANG}", 1)
    # The folder must be known before the mark is made, the rest only after it.
    batch = head.replace("umask 077\n", f"{text[0]}umask 077\n", 1) + "".join(text[1:])
    return Scripts(batch=batch, files=files, nodes=nodes)


def _ended_line(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


def _exports(values: Mapping[str, str]) -> Iterator[str]:
    for name, value in values.items():
        yield f"export {name}={shlex.quote(value)}\n"


def _shared_names(
    order: StartOrder, seats: list[TaskRank], nodes: tuple[str, ...], around: ScriptParts
) -> dict[str, str]:
    """Of all tasks; ``node.sh`` and the alone one add their own."""
    first = task_environment(order, seats[0], 0)
    ips = [around.addresses.get(seat.task.node, seat.task.node) for seat in seats]
    return {
        "PATH": around.path,
        "LANG": "C.UTF-8",
        **{
            name: value
            for name, value in first.items()
            if name not in ("BURSAR_NODE", "BURSAR_TASK")
        },
        "BURSAR_SAVED_FILE": f"{around.folder}/saved",
        "MASTER_ADDR": around.addresses.get(nodes[0], nodes[0]),
        "WORLD_SIZE": str(len(seats)),
        "SKYPILOT_NUM_NODES": str(len(seats)),
        "SKYPILOT_NODE_IPS": "\n".join(ips),
    }


def _lay_out(order: StartOrder, around: ScriptParts, ranks: int) -> Iterator[str]:
    """Archives first, then secrets: those are gone from the disk before anything of the user runs."""
    recipe = order.recipe
    yield f"export MASTER_PORT=$(({FIRST_PORT} + SLURM_JOB_ID % {PORTS}))\n"
    laid = [("", recipe.workdir)] if recipe.workdir else []
    laid += [(mount.target.removeprefix("~/"), mount.bundle) for mount in recipe.mounts]
    for rank in range(ranks):
        for target, bundle in laid:
            place = shlex.quote(f"{around.folder}/work-{rank}/{target}")
            archive = shlex.quote(f"{around.bundles}/{bundle}")
            yield (
                f"mkdir -p {place} && tar -xzf {archive} -C {place} --no-same-owner || "
                "finish - 'not started: its files could not be laid out; see batch.log'\n"
            )
    if recipe.secrets:
        yield '. "$A/secrets"; rm -f "$A/secrets"\n'


# -- one task --------------------------------------------------------------------------------------


def _alone(order: StartOrder, seat: TaskRank) -> Iterator[str]:
    recipe = order.recipe
    names = {
        "HOME": "$A/work-0",
        "TMPDIR": "$A/scratch-0",
    }
    yield "".join(f'export {name}="{value}"\n' for name, value in names.items())
    yield from _exports(_seat_names(order, seat, 0, (0, 1, 0)))
    yield _device_lines(seat)
    yield 'cd "$A/work-0" || finish - "not started: $A/work-0 is not there"\n'
    streams = '</dev/null >>"$A/task-0.out" 2>>"$A/task-0.err" &\npid=$!\n'
    streams += '[ -z "$told" ] || heard "$told"\nawait "$pid"\n'
    if recipe.setup and not recipe.argv:
        yield f'{shlex.quote(recipe.shell)} "$A/setup.sh" {streams}pid=\n'
        yield (
            '[ -z "$told" ] || finish "$code" "before its tasks were started"\n'
            '[ "$code" = 0 ] || finish "$code" "setup failed; its tasks were not started"\n'
        )
    if recipe.argv:
        yield f"word={shlex.quote(recipe.argv[0])}\n{_FIND}"
        command = " ".join(['"$program"', *map(shlex.quote, recipe.argv[1:])])
    elif plain := plain_command(recipe.run, recipe.shell):
        # Not one of the functions above, whatever it is called.
        command = f"command {' '.join(plain)}"
    else:
        command = f'{shlex.quote(recipe.shell)} "$A/run.sh"'
    yield f'begin\n{command} {streams}finish "$code"\n'


def _seat_names(
    order: StartOrder, seat: TaskRank, rank: int, place: tuple[int, int, int]
) -> dict[str, str]:
    local_rank, local_size, node_rank = place
    own = task_environment(order, seat, rank)
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(local_size),
        "NODE_RANK": str(node_rank),
        "BURSAR_NODE": own["BURSAR_NODE"],
        "BURSAR_TASK": own["BURSAR_TASK"],
        "BURSAR_GROUP": own["BURSAR_GROUP"],
        "SKYPILOT_NODE_RANK": str(rank),
        "SKYPILOT_NUM_GPUS_PER_NODE": str(devices_each(seat)),
    }


def devices_each(seat: TaskRank) -> int:
    """How many devices one task sees: whole GPUs or MIG instances, or the one GPU it shares."""
    task = seat.task
    if task.shares:
        return 1
    return (len(task.gpus) or len(task.slices)) // task.count


def _device_lines(seat: TaskRank) -> str:
    """Slurm sets the variable for the whole node; without devices it must be empty, not unset."""
    if not devices_each(seat):
        return "export CUDA_VISIBLE_DEVICES=\n"
    if seat.task.shares:
        share = seat.task.shares[seat.index]
        return f"export CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={share.percent}\n"
    return ""


# -- many ------------------------------------------------------------------------------------------


def _gang(order: StartOrder, ranks: int, parts: tuple[tuple[str, ...], ...]) -> Iterator[str]:
    recipe = order.recipe
    # Parts of a job may have asked for memory in different ways; srun refuses to see more than one.
    yield "export A\nunset SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU SLURM_MEM_PER_NODE\n"
    yield f"grace={recipe.grace_seconds} stop_signal={recipe.stop_signal.removeprefix('SIG')}\n"
    yield (
        f'is_up() {{ set -- "$A"/up.*; [ -e "$1" ] && [ $# = {ranks} ]; }}\n'
        'begin_once() { [ -n "$begun" ] || begin; }\n'
    )
    if recipe.argv:
        yield f"word={shlex.quote(recipe.argv[0])}\n{_FIND}"
    if recipe.setup and not recipe.argv:
        yield f'stage=setup\n{_srun(parts, "setup")} &\npid=$!\nawait "$pid"\nstage=\n'
        yield (
            'if [ -e "$A/failed" ]; then read -r code detail <"$A/failed"; finish "$code" "$detail"; fi\n'
            '[ -z "$told" ] || finish - "before its tasks were started"\n'
            '[ "$code" = 0 ] || finish "$code" "setup failed; its tasks were not started"\n'
        )
    yield f"{_srun(parts, 'run')} &\n{_GANG_WATCH}"


def _srun(parts: tuple[tuple[str, ...], ...], stage: str) -> str:
    """One task on each node, which starts the tasks of the node."""
    options = "--kill-on-bad-exit=0 --wait=0 --cpu-bind=none --mem=0 --export=ALL"
    if len(parts) == 1:
        count = len(parts[0])
        return (
            f'srun {options} --nodes={count} --ntasks={count} bash "$A/node.sh" {stage} </dev/null'
        )
    words = [
        f'{options} --het-group={number} --nodes={len(nodes)} --ntasks={len(nodes)} bash "$A/node.sh" {stage}'
        for number, nodes in enumerate(parts)
    ]
    return f"srun {' : '.join(words)} </dev/null"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Crew:
    """The tasks of one node, with their ranks."""

    order: StartOrder
    node: str
    node_rank: int
    seats: tuple[tuple[int, TaskRank], ...]

    def positions(self, index: int) -> list[int]:
        """Which of the devices that Slurm gives the node, in order of their numbers, are this task's."""
        task, number = self.seats[index][1].task, self.seats[index][1].index
        each = devices_each(self.seats[index][1])
        if task.slices:
            before = [seat for _, seat in self.seats[:index] if seat.task.slices]
            first = sum(map(devices_each, before))
            return list(range(first, first + each))
        held = sorted({gpu for _, seat in self.seats for gpu in seat.task.gpus})
        return [held.index(gpu) for gpu in task.gpus[number * each : (number + 1) * each]]

    def start(self, index: int, what: str, label: str) -> str:
        """One process in the background, with its streams."""
        rank, seat = self.seats[index]
        names = _seat_names(self.order, seat, rank, (index, len(self.seats), self.node_rank))
        folders = f'HOME="$A/work-{self.node_rank}" TMPDIR="$A/scratch-{self.node_rank}"'
        devices = _device_lines(seat)
        if not devices:
            devices = f"own_devices {' '.join(map(str, self.positions(index)))}\n"
        body = "".join([*_exports(names), f"export {folders}\n", devices])
        streams = f'</dev/null >>"$A/task-{rank}.out" 2>>"$A/task-{rank}.err"'
        return (
            f'(\n{body}cd "$HOME" || exit 1\n{what}\n) {streams} &\n'
            f"pids+=($!) labels+=({shlex.quote(label)})\n"
        )


def _command(recipe: RunSpec) -> str:
    """What becomes of the shell of one task."""
    if recipe.argv:
        return f"exec {' '.join(map(shlex.quote, recipe.argv))}"
    if plain := plain_command(recipe.run, recipe.shell):
        return f"exec {' '.join(plain)}"
    return f'exec {shlex.quote(recipe.shell)} "$A/run.sh"'


def _node_lines(order: StartOrder, seats: list[TaskRank], nodes: tuple[str, ...]) -> Iterator[str]:
    recipe = order.recipe
    shell = shlex.quote(recipe.shell)
    command = _command(recipe)
    yield 'case "$SLURMD_NODENAME/$1" in\n'
    for node_rank, node in enumerate(nodes):
        own = tuple((rank, seat) for rank, seat in enumerate(seats) if seat.task.node == node)
        crew = _Crew(order=order, node=node, node_rank=node_rank, seats=own)
        if recipe.setup and not recipe.argv:
            yield f"{shlex.quote(node)}/setup)\n"
            yield crew.start(0, f'exec {shell} "$A/setup.sh"', "setup")
            yield "wait_for_all '; its tasks were not started'\n;;\n"
        yield f"{shlex.quote(node)}/run)\n"
        for index, (rank, _) in enumerate(own):
            yield crew.start(index, command, f"task {rank}")
        yield f': >"$A/up.{node_rank}"\nwait_for_all\n;;\n'
    yield "esac\nexit 0\n"
