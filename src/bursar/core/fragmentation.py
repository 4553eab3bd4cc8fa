"""Place a task where it spoils the least room for the tasks that usually come.

Free GPU time is worth nothing to a task that needs more of it on one GPU, or more CPU beside it, than is
left in one place. How much of a node's free GPU is spoiled so, averaged over the mix of tasks that this
fleet sees, is its fragmentation (F in "Beware of Fragmentation", USENIX ATC'23). A task goes where
that number grows least.

Two things make the rule work. Growth is compared in coarse steps: differences smaller than a step say
less than packing does. And nodes that tie are taken fullest first; a random choice among them loses
more than the rule gains.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bursar.core.node import NodeState
from bursar.model.gpu import GpuMode
from bursar.model.job import MpsShare, TaskGroup, WholeGpus
from bursar.model.units import MILLI

MILLI_PER_PERCENT = MILLI // 100

MOST_SHAPES = 40
"""More shapes cost time in proportion and hardly change a choice."""
COVERED_PERCENT = 95
"""The popular shapes are those that make up this part of all tasks; rare ones only add noise."""
STEP_MILLI = 40
"""Growth is compared in steps of this; finer ones pack worse, and so does no step at all."""
RENEW_AFTER_PERCENT = 50
"""The shapes in use are renewed when so many tasks have come since, of those they were made from."""
REMEMBERED_TASKS = 1 << 16
"""At so many tasks all counts are halved: what was seen long ago fades, and the mix follows its fleet."""
MOST_SCORES = 1 << 17
MOST_LINES = 256
MOST_CHANGES = 1 << 16
"""Caches that reach these sizes start anew."""


class TaskShape(NamedTuple):
    """What of a task matters here. Amounts are rounded down, so that few shapes stand for all tasks.

    ``each_milli`` is what it takes of each of ``gpus`` GPUs: all of it, or part of one.
    """

    gpus: int
    each_milli: int
    cpu_milli: int
    memory_mib: int
    models: tuple[str, ...]


class Free(NamedTuple):
    """What is free on a node: whole GPUs, the parts left of shared ones (ascending), the rest."""

    model: str
    whole: int
    parts: tuple[int, ...]
    cpu_milli: int
    memory_mib: int

    @property
    def gpu_milli(self) -> int:
        return self.whole * MILLI + sum(self.parts)


def shape_of(group: TaskGroup) -> TaskShape:
    """The shape of one task of a group.

    A MIG slice needs a GPU that nobody shares: to those who share GPUs it is like a whole one.
    """
    cpu_milli, memory_mib = _round_down(group.cpu_milli), _round_down(group.memory_mib)
    match group.gpu:
        case None:
            return TaskShape(0, 0, cpu_milli, memory_mib, ())
        case WholeGpus(count=count, models=models):
            return TaskShape(count, MILLI, cpu_milli, memory_mib, models)
        case MpsShare(percent=percent, models=models):
            return TaskShape(1, percent * MILLI_PER_PERCENT, cpu_milli, memory_mib, models)
        case slice_request:
            return TaskShape(1, MILLI, cpu_milli, memory_mib, slice_request.models)


def _round_down(amount: int) -> int:
    """The last point of a grid whose steps are at most an eighth.

    Not the next: a task that wants all the CPU of a node must not look as if it never fitted there.
    """
    step = 1 << max(0, amount.bit_length() - 4)
    return amount // step * step


class WorkloadMix:
    """What kinds of tasks this fleet sees, and how often.

    Counts change with every job; the ``shapes`` in use change only now and then, because every score
    depends on them. They follow from the calls of ``add`` alone, never from who asks; and with the time
    of each, they change only between instants, so that the order of equals leaves no trace.
    """

    __slots__ = (
        "_admitted",
        "_at_ms",
        "_counts",
        "_cpu_needs",
        "_memory_needs",
        "_renew_at",
        "_scores",
        "_total",
        "shapes",
        "version",
        "weight",
    )

    def __init__(self) -> None:
        self._counts: dict[TaskShape, int] = {}
        self._total = 0
        self._renew_at = 1
        self._at_ms: int | None = None
        self._scores: dict[tuple[object, ...], int] = {}
        self._admitted: dict[tuple[str, int, int], tuple[tuple[tuple[int, int], int], ...]] = {}
        self._cpu_needs: list[int] = []
        self._memory_needs: list[int] = []
        self.shapes: tuple[tuple[TaskShape, int], ...] = ()
        self.weight = 0
        self.version = 0

    def add(self, group: TaskGroup, tasks: int, at_ms: int | None = None) -> None:
        """Count the tasks of one group of a submitted job."""
        if at_ms != self._at_ms and self._total >= self._renew_at:
            self._renew()
        self._at_ms = at_ms
        shape = shape_of(group)
        if not shape.gpus:
            shape = _NO_GPU
        self._counts[shape] = self._counts.get(shape, 0) + tasks
        self._total += tasks
        if at_ms is None and self._total >= self._renew_at:
            self._renew()

    def fragments(self, free: Free) -> int:
        """The free milli-GPU that the mix cannot use, summed over its tasks (see ``weight``)."""
        cpu = bisect_right(self._cpu_needs, free.cpu_milli)
        memory = bisect_right(self._memory_needs, free.memory_mib)
        key = (free.model, free.whole, free.parts, cpu, memory)
        found = self._scores.get(key)
        if found is None:
            if len(self._scores) >= MOST_SCORES:
                self._scores.clear()
            found = self._scores[key] = self._sum_fragments(free, (free.model, cpu, memory))
        return found

    def _sum_fragments(self, free: Free, room: tuple[str, int, int]) -> int:
        """Shapes that find no CPU, memory or GPU of their model can use nothing of what is free."""
        admitted = self._admitted.get(room)
        if admitted is None:
            admitted = self._admitted[room] = self._admit(free)
        total = self.weight * free.gpu_milli
        for (gpus, each_milli), weight in admitted:
            small = bisect_left(free.parts, each_milli)
            if free.whole + len(free.parts) - small >= gpus:
                total -= weight * (free.gpu_milli - sum(free.parts[:small]))
        return total

    def _admit(self, free: Free) -> tuple[tuple[tuple[int, int], int], ...]:
        """Which GPUs are wanted by shapes that fit in all else, and by how many tasks."""
        wanted: dict[tuple[int, int], int] = {}
        for shape, weight in self.shapes:
            if (
                shape.gpus
                and shape.cpu_milli <= free.cpu_milli
                and shape.memory_mib <= free.memory_mib
                and (not shape.models or free.model in shape.models)
            ):
                need = (shape.gpus, shape.each_milli)
                wanted[need] = wanted.get(need, 0) + weight
        return tuple(sorted(wanted.items()))

    def _renew(self) -> None:
        """Take the most popular shapes into use and let every score be worked out anew."""
        ranked = sorted(self._counts.items(), key=lambda one: (-one[1], one[0]))
        covered = 0
        popular: list[tuple[TaskShape, int]] = []
        for shape, count in ranked[:MOST_SHAPES]:
            popular.append((shape, count))
            covered += count
            if covered * 100 >= self._total * COVERED_PERCENT:
                break
        self.shapes = tuple(popular)
        self.weight = covered
        self._cpu_needs = sorted({shape.cpu_milli for shape, _ in popular})
        self._memory_needs = sorted({shape.memory_mib for shape, _ in popular})
        self._scores = {}
        self._admitted = {}
        self.version += 1
        if self._total >= REMEMBERED_TASKS:
            self._counts = {shape: n // 2 for shape, n in self._counts.items() if n > 1}
            self._total = sum(self._counts.values())
        self._renew_at = self._total + max(1, self._total * RENEW_AFTER_PERCENT // 100)


_NO_GPU = TaskShape(0, 0, 0, 0, ())
"""Tasks without a GPU spoil none and can use none, whatever else they need."""


def free_on(node: NodeState) -> Free:
    """What is free on a node. What is left of a GPU cut by MIG is for slices, which have an index."""
    parts = [
        device.free_percent * MILLI_PER_PERCENT
        for device in node.devices
        if device.mode is GpuMode.MPS and device.healthy and device.has_client_room
    ]
    parts = sorted(part for part in parts if part)
    model = node.devices[0].model.name if node.devices else ""
    return Free(model, node.free_gpus, tuple(parts), node.cpu_free_milli, node.memory_free_mib)


def fragmentation_milli(node: NodeState, mix: WorkloadMix) -> int:
    """The free milli-GPU of a node that a task of the mix is expected to find useless."""
    return mix.fragments(free_on(node)) // mix.weight if mix.weight else 0


# -- how much a task would spoil -----------------------------------------------------------------


def _after_share(free: Free, part: int, shape: TaskShape) -> Free:
    """What is free once a task has taken its share of a GPU of which so much was free."""
    parts = [*free.parts]
    if part < MILLI:
        del parts[bisect_left(parts, part)]
    if part > shape.each_milli:
        insort(parts, part - shape.each_milli)
    return Free(
        free.model,
        free.whole - (part == MILLI),
        tuple(parts),
        free.cpu_milli - shape.cpu_milli,
        free.memory_mib - shape.memory_mib,
    )


def _after_whole(free: Free, shape: TaskShape) -> Free:
    """What is free once a task has taken its whole GPUs, or none."""
    return Free(
        free.model,
        free.whole - shape.gpus,
        free.parts,
        free.cpu_milli - shape.cpu_milli,
        free.memory_mib - shape.memory_mib,
    )


def _growth_steps(free: Free, shape: TaskShape, mix: WorkloadMix) -> int | None:
    """How much fragmentation grows with one task, in steps; None when no GPU has room for it."""
    if shape.each_milli in (0, MILLI):
        if free.whole < shape.gpus:
            return None
        after = mix.fragments(_after_whole(free, shape))
    else:
        parts = {part for part in free.parts if part >= shape.each_milli}
        if free.whole:
            parts.add(MILLI)
        if not parts:
            return None
        after = min(mix.fragments(_after_share(free, part, shape)) for part in parts)
    return (after - mix.fragments(free)) // (STEP_MILLI * mix.weight) if mix.weight else 0


def choose_gpu_for_share(
    node: NodeState, group: TaskGroup, mix: WorkloadMix, holder: str | None = None
) -> int | None:
    """On which GPU of a node an MPS share spoils least; None when none has room for it.

    Of those that tie, the fullest, and one that needs no repartition. GPUs that ``holder`` shares
    already are left out: it could not give back one share without the other.
    """
    if not isinstance(group.gpu, MpsShare):
        return None
    shape = shape_of(group)
    free = free_on(node)
    best: tuple[int, int, bool, int] | None = None
    for gpu, device in enumerate(node.devices):
        part = _part_for(node, gpu, group.gpu)
        if part and holder not in device.shares:
            after = mix.fragments(_after_share(free, part, shape))
            rank = (after, part, bool(device.layout), gpu)
            if best is None or rank < best:
                best = rank
    return None if best is None else best[-1]


def _part_for(node: NodeState, gpu: int, share: MpsShare) -> int:
    """The free milli of a GPU if an MPS share fits there, else 0."""
    device = node.devices[gpu]
    if (node.blank | node.emptied) >> gpu & 1:
        return MILLI if share.memory_mib <= device.model.memory_mib else 0
    if device.can_share(share.percent, share.memory_mib):
        return device.free_percent * MILLI_PER_PERCENT
    return 0


# -- which node ----------------------------------------------------------------------------------


def least_fragmenting(
    nodes: Iterator[NodeState], group: TaskGroup, mix: WorkloadMix
) -> NodeState | None:
    """Of nodes with CPU, memory and disk for a task, the one it spoils least; none has a GPU: None."""
    shape = shape_of(group)
    best: NodeState | None = None
    best_rank: tuple[int, int, int, str] | None = None
    for node in nodes:
        free = free_on(node)
        growth = _growth_steps(free, shape, mix)
        if growth is None or not _has_memory_for(node, group):
            continue
        rank = (growth, free.gpu_milli, free.cpu_milli, node.id)
        if best_rank is None or rank < best_rank:
            best, best_rank = node, rank
    return best


def _has_memory_for(node: NodeState, group: TaskGroup) -> bool:
    """Whether a GPU with room for an MPS share has the memory it wants, too."""
    share = group.gpu
    if not isinstance(share, MpsShare) or not share.memory_mib:
        return True
    return any(_part_for(node, gpu, share) for gpu in range(len(node.devices)))


NodeRank = tuple[int, int, int, int]
"""Sorts the nodes of a pool for one shape: growth in steps, free milli-GPU, free CPU, rank by id."""


class _Line:
    """The nodes with a GPU for one shape, best first, as of a position in the log of changes."""

    __slots__ = ("order", "position", "rank_of")

    def __init__(self) -> None:
        self.order: list[NodeRank] = []
        self.rank_of: dict[int, NodeRank] = {}
        self.position = 0


class FragmentationIndex:
    """The nodes of a pool in the order in which each shape of task prefers them.

    A start changes one node. So instead of looking at all nodes again, a shape that is asked for
    looks at those changed since it was asked for last.
    """

    __slots__ = ("_changes", "_free", "_lines", "_mix", "_nodes", "_version")

    def __init__(self, nodes: Sequence[NodeState], mix: WorkloadMix) -> None:
        """``nodes`` stand at their ``rank``, as they do in a pool."""
        self._nodes = nodes
        self._mix = mix
        self._version = mix.version
        self._free: list[Free | None] = [None] * len(nodes)
        self._lines: dict[TaskShape, _Line] = {}
        self._changes: list[int] = []

    def note(self, node: NodeState) -> None:
        """Must be called after every change of a node: of its room, and of whether it is open."""
        if len(self._changes) >= MOST_CHANGES:
            self._forget()
        self._free[node.rank] = None
        self._changes.append(node.rank)

    def best_first(self, group: TaskGroup) -> Iterator[NodeState]:
        """Open nodes with a GPU for a task of the group, the one it spoils least in front.

        Everything else that is asked of a node is the caller's to check, and the memory of the GPU
        as well: ``choose_gpu_for_share`` says None where it is too small.
        """
        nodes = self._nodes
        for rank in self._line(shape_of(group)).order:
            yield nodes[rank[-1]]

    def _line(self, shape: TaskShape) -> _Line:
        """The line of a shape, with every node where it belongs now."""
        if self._version != self._mix.version:
            self._version = self._mix.version
            self._forget()
        line = self._lines.get(shape)
        if line is None:
            if len(self._lines) >= MOST_LINES:
                self._forget()
            line = self._lines[shape] = self._new_line(shape)
        elif line.position < len(self._changes):
            for at in sorted(set(self._changes[line.position :])):
                self._move(line, at, shape)
        line.position = len(self._changes)
        return line

    def _new_line(self, shape: TaskShape) -> _Line:
        line = _Line()
        growth_of: dict[Free, int | None] = {}
        for at, node in enumerate(self._nodes):
            if node.is_open:
                free = self._free_on(at)
                if free not in growth_of:
                    growth_of[free] = _growth_steps(free, shape, self._mix)
                growth = growth_of[free]
                if growth is not None:
                    line.rank_of[at] = (growth, free.gpu_milli, free.cpu_milli, at)
        line.order = sorted(line.rank_of.values())
        return line

    def _move(self, line: _Line, at: int, shape: TaskShape) -> None:
        before = line.rank_of.pop(at, None)
        now = self._rank(at, shape)
        if now is not None:
            line.rank_of[at] = now
        if now == before:
            return
        if before is not None:
            del line.order[bisect_left(line.order, before)]
        if now is not None:
            insort(line.order, now)

    def _rank(self, at: int, shape: TaskShape) -> NodeRank | None:
        if not self._nodes[at].is_open:
            return None
        free = self._free_on(at)
        growth = _growth_steps(free, shape, self._mix)
        return None if growth is None else (growth, free.gpu_milli, free.cpu_milli, at)

    def _free_on(self, at: int) -> Free:
        free = self._free[at]
        if free is None:
            free = self._free[at] = free_on(self._nodes[at])
        return free

    def _forget(self) -> None:
        """Start anew; what is free on unchanged nodes is still known."""
        self._lines = {}
        self._changes = []
