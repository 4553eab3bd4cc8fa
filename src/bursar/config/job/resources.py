"""What each task of a job needs, and where it may run.

Alternatives (``any_of``, ``ordered``, several accelerators) are kept as sets of models and markets. What
cannot be said so is refused rather than taken for something near it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from bursar.catalog.gpu_models import find_gpu_model
from bursar.config.yaml.value_readers import (
    InvalidValue,
    choice,
    flag,
    in_units,
    listed_words,
    members,
    named,
    number,
    shown,
    text,
)
from bursar.core.admission.value_limits import MOST_GPUS_PER_NODE
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import (
    FlavorChoice,
    GpuRequest,
    MigSlice,
    MpsShare,
    Toleration,
    WholeGpus,
)
from bursar.model.units import GIB_MIB, MILLI

STEADY = (Market.OWNED, Market.RESERVED, Market.ON_DEMAND)
SPOT = (Market.SPOT,)
ALLOWED = "allowed"
MOST_ALTERNATIVES = 64

_TIMES = re.compile(
    r"(?:(?P<before>\d+)\s*x\s*)?(?P<model>[^:\s]+?)(?:\s*x\s*(?P<after>\d+))?\Z", re.I
)
_AMOUNT = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([a-z]*)\s*\+?\Z", re.I)
_MEMORY_MIB = {
    **dict.fromkeys(("", "g", "gb", "gib", "gi"), GIB_MIB),
    **dict.fromkeys(("m", "mb", "mib", "mi"), 1),
    **dict.fromkeys(("t", "tb", "tib", "ti"), GIB_MIB * GIB_MIB),
}
_MIG = re.compile(r"mig[\s:]+(\d{1,2}g\.\d{1,3}gb(?:\+[a-z.]+)?)\Z", re.I)
_MPS = re.compile(r"mps[\s:]+(\d{1,3})\s*%(?:[\s,]+(\d{1,6})\s*(gi?b?|mi?b?))?\Z", re.I)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerators:
    """So many GPUs of any of these models (none named: of any)."""

    count: int
    models: tuple[str, ...] = ()
    in_order: bool = False


# -- accelerators ------------------------------------------------------------------------------------


def accelerators(value: Any) -> Accelerators:
    """``A100:8``, ``{A100: 8}``, a list (best first), or a number of GPUs of any model."""
    if isinstance(value, str):
        return one_accelerator(value)
    if type(value) is int:
        return Accelerators(count=_gpu_count(value))
    if isinstance(value, dict):
        found = [_inside(name, _pair, (name, count)) for name, count in value.items()]
        return _together(found, in_order=False)
    return _together(members(value, _listed, MOST_ALTERNATIVES), in_order=True)


def _inside(step: str, read: Any, value: Any) -> Accelerators:
    try:
        found: Accelerators = read(value)
    except InvalidValue as wrong:
        raise wrong.inside(step) from None
    return found


def _pair(pair: tuple[str, Any]) -> Accelerators:
    name, count = pair
    if count is None:
        return one_accelerator(name)
    return Accelerators(count=_gpu_count(count), models=(_model(name),))


def _listed(value: Any) -> Accelerators:
    if isinstance(value, dict) and len(value) == 1:
        return _pair(next(iter(value.items())))
    return one_accelerator(value)


def one_accelerator(value: Any) -> Accelerators:
    """``A100:8`` or ``A100``."""
    if not isinstance(value, str) or not value.strip():
        fix = "Write a model and how many, for example 'A100:8'."
        raise InvalidValue(f"is {shown(value)}", fix, "wrong-type")
    return _one_accelerator(value)


@lru_cache(maxsize=1024)
def _one_accelerator(value: str) -> Accelerators:
    """Remembered, because thousands of jobs ask for the same; what is wrong is not."""
    name, colon, count = value.strip().partition(":")
    if not colon and (times := _TIMES.match(name)) and (times["before"] or times["after"]):
        fix = f"Write '{times['model'][:40]}:{times['before'] or times['after']}'."
        raise InvalidValue(f"is {shown(value)}", fix, "wrong-type")
    if not colon:
        return Accelerators(count=1, models=(_model(name),))
    model = _model(name)
    if not re.fullmatch(r"\d{1,9}", count.strip()):
        raise _not_a_count(count.strip(), name.strip())
    return Accelerators(count=_gpu_count(int(count)), models=(model,))


def _not_a_count(count: str, name: str) -> InvalidValue:
    part = re.fullmatch(r"0?\.(\d{1,2})\d*", count)
    if part:
        percent = max(1, int(part[1].ljust(2, "0")))
        fix = f"Write 'accelerators: {name[:40]}' and 'gpu: mps {percent}%' for a share of one GPU."
    else:
        fix = f"Write a whole number after the colon, for example '{name[:40]}:1'."
    return InvalidValue(f"asks for {shown(count)} GPUs", fix, "wrong-type")


def _gpu_count(value: Any) -> int:
    if type(value) is not int:
        number(value)
        raise _not_a_count(str(value), "A100")
    if not 1 <= value <= MOST_GPUS_PER_NODE:
        fix = (
            f"Write 1 to {MOST_GPUS_PER_NODE:,}, or leave accelerators out for a job without GPUs."
        )
        raise InvalidValue(f"asks for {shown(value)} GPUs", fix, "out-of-range")
    return value


def _model(name: str) -> str:
    try:
        return find_gpu_model(name).name
    except UserError as error:
        fix = error.fix[:1].upper() + error.fix[1:]
        raise InvalidValue(
            f"names {shown(name)}, not a GPU model we know", fix, "unknown-gpu-model"
        ) from None


def _together(found: Iterable[Accelerators], *, in_order: bool) -> Accelerators:
    all_of_them = list(found)
    if not all_of_them:
        raise InvalidValue(
            "is empty", "Write a model and how many, for example 'A100:8'.", "empty-list"
        )
    counts = sorted({one.count for one in all_of_them})
    if len(counts) > 1:
        raise InvalidValue(
            f"asks for different numbers of GPUs: {listed_words(str(n) for n in counts)}",
            "Write the same number for every model: tasks of one job are alike.",
            "not-expressible",
        )
    models = tuple(dict.fromkeys(name for one in all_of_them for name in one.models))
    return Accelerators(count=counts[0], models=models, in_order=in_order and len(models) > 1)


# -- shares, amounts, places -------------------------------------------------------------------------


def gpu_share(value: Any) -> MigSlice | MpsShare:
    """``mig 1g.10gb``, ``mps 25%`` or ``mps 25% 8 GiB``."""
    written = text(value).strip()
    mig = _MIG.match(written)
    if mig:
        return MigSlice(profile=mig[1].lower())
    mps = _MPS.match(written)
    if mps is None:
        fix = "Write 'mig 1g.10gb' or 'mps 25%'; whole GPUs are 'accelerators'."
        raise InvalidValue(f"is {shown(value)}, not a part of a GPU", fix, "wrong-type")
    if not 1 <= int(mps[1]) <= 100:
        raise InvalidValue(f"is {shown(value)}", "Write 1 to 100 percent.", "out-of-range")
    memory = int(mps[2] or 0) * _MEMORY_MIB[(mps[3] or "m").lower()]
    return MpsShare(percent=int(mps[1]), memory_mib=memory)


def cpu_milli(value: Any) -> int:
    """``4``, ``0.5`` or ``4+``: that many, or more if it comes to it."""
    return in_units(_at_least(value), MILLI, "thousandth of a CPU")


def memory_mib(value: Any) -> int:
    """GiB: ``32``, ``32+``; or with a unit, ``512 MiB``, ``2TB``."""
    if not isinstance(value, str):
        return in_units(value, GIB_MIB, "MiB")
    found = _AMOUNT.match(value.strip())
    unit = _MEMORY_MIB.get(found[2].lower()) if found else None
    if found is None or unit is None:
        fix = (
            "Write a number of GiB, for example 32, or a number and a unit, for example '512 MiB'."
        )
        raise InvalidValue(f"is {shown(value)}, not an amount of memory", fix, "wrong-type")
    return in_units(float(found[1]), unit, "MiB")


def _at_least(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"(\d{1,9})(\.\d{1,6})?\s*\+?", value.strip())
    if found is None:
        fix = "Write a number, for example 4; '4+' means the same."
        raise InvalidValue(f"is {shown(value)}, not a number of CPUs", fix, "wrong-type")
    return float(found[0].rstrip("+ ")) if found[2] else int(found[1])


def spot_markets(value: Any) -> tuple[Market, ...]:
    """``true``: on spot alone. ``false``: never. ``allowed``: wherever it is expected to cost least."""
    if value == ALLOWED:
        return STEADY + SPOT
    if isinstance(value, str) and value.lower() in ("allow", "any", "auto"):
        raise InvalidValue(f"is {shown(value)}", f"Did you mean {ALLOWED!r}?", "unknown-choice")
    try:
        return SPOT if flag(value) else STEADY
    except InvalidValue as wrong:
        wrong.fix = f"Write true, false or {ALLOWED}."
        raise


_market = choice([str(one.value) for one in Market], "market")


def markets(value: Any) -> tuple[Market, ...]:
    """Markets by name, the most welcome first."""
    found = tuple(Market(one) for one in members(value, _market, len(Market)))
    if not found or len(set(found)) < len(found):
        raise InvalidValue(
            "is empty or names a market twice", "Write each wanted one once.", "no-markets"
        )
    return found


def node_labels(value: Any) -> tuple[tuple[str, str], ...]:
    """Labels that a node must have."""
    return tuple(sorted(named(value, text, text, 64).items()))


def tolerations(value: Any) -> tuple[Toleration, ...]:
    """Taints that the job does not mind: ``spot`` or ``dedicated=team-a``."""

    def one(written: Any) -> Toleration:
        key, _, what = text(written).partition("=")
        return Toleration(key=text(key), value=what)

    return tuple(members([value] if isinstance(value, str) else value, one, 64))


# -- all of it together ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRequest:
    """What a task asks for and where it may run."""

    gpu: GpuRequest | None
    markets: tuple[Market, ...]
    choose_by: FlavorChoice


def put_together(said: dict[str, Any], share: MigSlice | MpsShare | None) -> TaskRequest:
    """The GPUs and markets of a job, of what it says once and of its alternatives."""
    listed = "ordered" if "ordered" in said else "any_of"
    if "any_of" in said and "ordered" in said:
        fix = "Keep 'any_of' when they are equally good, 'ordered' when the first is best."
        raise InvalidValue("stands beside 'any_of'", fix, "two-choices").inside("ordered")
    if listed not in said:
        whole, where = said.get("accelerators"), _markets_of(said)
        in_order = whole is not None and whole.in_order
    else:
        try:
            whole, where, in_order = _alternatives(said, in_order=listed == "ordered")
        except InvalidValue as wrong:
            raise wrong.inside(listed) from None
    return TaskRequest(
        gpu=_request(whole, share, said.get("gpu_memory", 0)),
        markets=where,
        choose_by=FlavorChoice.ORDER if in_order else FlavorChoice.COST,
    )


def _markets_of(said: dict[str, Any], around: dict[str, Any] | None = None) -> tuple[Market, ...]:
    if "markets" in said and "use_spot" in said:
        fix = "Keep one of them: 'markets' says it all."
        raise InvalidValue("stands beside 'markets'", fix, "two-choices").inside("use_spot")
    found: tuple[Market, ...] | None = said.get("markets") or said.get("use_spot")
    if found is None:
        return _markets_of(around) if around else STEADY
    return found


def _alternatives(
    said: dict[str, Any], *, in_order: bool
) -> tuple[Accelerators | None, tuple[Market, ...], bool]:
    """Any model of them on any market of them must be acceptable: more cannot be kept."""
    chosen = said["ordered" if in_order else "any_of"]
    if not chosen:
        raise InvalidValue(
            "is empty", "Write at least one alternative, or leave it out.", "empty-list"
        )
    outer = said.get("accelerators")
    each = [(one.get("accelerators") or outer, _markets_of(one, said)) for one in chosen]
    if any(one is None for one, _ in each) and any(one is not None for one, _ in each):
        fix = "Write accelerators in every alternative, or submit two jobs."
        raise InvalidValue("has alternatives with GPUs and without", fix, "not-expressible")
    whole = (
        None if each[0][0] is None else _together((one for one, _ in each if one), in_order=False)
    )
    models = whole.models if whole else ()
    where = tuple(dict.fromkeys(market for _, found in each for market in found))
    pairs = {(m, k) for one, found in each for m in (one.models if one else ("",)) for k in found}
    if len(pairs) < max(1, len(models)) * len(where):
        raise InvalidValue(
            "ties some models to some markets",
            "Allow each model on each market that is named, or submit one job for each alternative.",
            "not-expressible",
        )
    if in_order:
        _refuse_other_orders(each, models)
    return whole, where, in_order


def _refuse_other_orders(
    each: list[tuple[Accelerators | None, tuple[Market, ...]]], models: tuple[str, ...]
) -> None:
    """Jobs that choose by order choose the market first, then the model."""
    groups = list(dict.fromkeys(found for _, found in each))
    ranks = [
        (groups.index(found), models.index(model) if model else 0)
        for one, found in each
        for model in (one.models if one else ("",))
    ]
    overlap = sum(len(group) for group in groups) > len({m for group in groups for m in group})
    if overlap or any(later < earlier for earlier, later in pairwise(ranks)):
        raise InvalidValue(
            "puts a model before a market",
            "List all models on the best market first, then all on the next; or use 'any_of'.",
            "not-expressible",
        )


def _request(
    whole: Accelerators | None, share: MigSlice | MpsShare | None, least_mib: int
) -> GpuRequest | None:
    if share is None:
        if whole is None:
            if least_mib:
                fix = "Write 'accelerators: 1' beside it for any GPU with so much memory."
                raise InvalidValue("says nothing without accelerators", fix, "missing-key").inside(
                    "gpu_memory"
                )
            return None
        return WholeGpus(count=whole.count, models=whole.models, min_memory_mib=least_mib)
    if whole is None:
        return share
    if whole.count != 1 or least_mib:
        fix = "Name the model alone, as in 'accelerators: A100-80GB', or leave 'gpu' out."
        problem = "asks for whole GPUs beside 'gpu', which asks for a part of one"
        raise InvalidValue(problem, fix, "two-choices").inside("accelerators")
    if isinstance(share, MigSlice):
        return MigSlice(profile=share.profile, models=whole.models)
    return MpsShare(percent=share.percent, memory_mib=share.memory_mib, models=whole.models)
