"""The resources of each task of a job, and the markets it may run on.

Alternatives (``any_of``, ``ordered``, several accelerators) are stored as sets of models and markets.
What these cannot express is rejected, not approximated.
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
    boolean,
    choice,
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

NON_SPOT = (Market.OWNED, Market.RESERVED, Market.ON_DEMAND)
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
    """A number of GPUs of any of these models; no models means any model."""

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
        alternatives = [_inside(name, _pair, (name, count)) for name, count in value.items()]
        return _combine(alternatives, in_order=False)
    return _combine(members(value, _listed, MOST_ALTERNATIVES), in_order=True)


def _inside(step: str, read: Any, value: Any) -> Accelerators:
    try:
        accelerators: Accelerators = read(value)
    except InvalidValue as error:
        raise error.inside(step) from None
    return accelerators


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
    """Cached, because thousands of jobs ask for the same; errors are not cached."""
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
    fraction = re.fullmatch(r"0?\.(\d{1,2})\d*", count)
    if fraction:
        percent = max(1, int(fraction[1].ljust(2, "0")))
        fix = f"Write 'accelerators: {name[:40]}' and 'gpu: mps {percent}%' for a share of one GPU."
    else:
        fix = f"Write a whole number after the colon, for example '{name[:40]}:1'."
    return InvalidValue(f"asks for {shown(count)} GPUs", fix, "wrong-type")


def _gpu_count(value: Any) -> int:
    if type(value) is not int:
        number(value)
        raise _not_a_count(str(value), "A100")
    if not 1 <= value <= MOST_GPUS_PER_NODE:
        fix = f"Write 1 to {MOST_GPUS_PER_NODE:,}, or remove accelerators for a job without GPUs."
        raise InvalidValue(f"asks for {shown(value)} GPUs", fix, "out-of-range")
    return value


def _model(name: str) -> str:
    try:
        return find_gpu_model(name).name
    except UserError as error:
        fix = error.fix[:1].upper() + error.fix[1:]
        raise InvalidValue(
            f"names {shown(name)}, not a known GPU model", fix, "unknown-gpu-model"
        ) from None


def _combine(alternatives: Iterable[Accelerators], *, in_order: bool) -> Accelerators:
    every = list(alternatives)
    if not every:
        raise InvalidValue(
            "is empty", "Write a model and how many, for example 'A100:8'.", "empty-list"
        )
    counts = sorted({one.count for one in every})
    if len(counts) > 1:
        raise InvalidValue(
            f"asks for different numbers of GPUs: {listed_words(str(n) for n in counts)}",
            "Write the same number for every model: all tasks of a job are the same.",
            "not-expressible",
        )
    models = tuple(dict.fromkeys(name for one in every for name in one.models))
    return Accelerators(count=counts[0], models=models, in_order=in_order and len(models) > 1)


# -- shares, amounts, markets -------------------------------------------------------------------------


def gpu_share(value: Any) -> MigSlice | MpsShare:
    """``mig 1g.10gb``, ``mps 25%`` or ``mps 25% 8 GiB``."""
    written = text(value).strip()
    mig = _MIG.match(written)
    if mig:
        return MigSlice(profile=mig[1].lower())
    mps = _MPS.match(written)
    if mps is None:
        fix = "Write 'mig 1g.10gb' or 'mps 25%'; whole GPUs are 'accelerators'."
        raise InvalidValue(f"is {shown(value)}, not a share of a GPU", fix, "wrong-type")
    if not 1 <= int(mps[1]) <= 100:
        raise InvalidValue(f"is {shown(value)}", "Write 1 to 100 percent.", "out-of-range")
    memory = int(mps[2] or 0) * _MEMORY_MIB[(mps[3] or "m").lower()]
    return MpsShare(percent=int(mps[1]), memory_mib=memory)


def cpu_milli(value: Any) -> int:
    """``4``, ``0.5`` or ``4+``, which means the same as ``4``."""
    return in_units(_at_least(value), MILLI, "thousandth of a CPU")


def memory_mib(value: Any) -> int:
    """GiB: ``32``, ``32+``; or with a unit, ``512 MiB``, ``2TB``."""
    if not isinstance(value, str):
        return in_units(value, GIB_MIB, "MiB")
    match = _AMOUNT.match(value.strip())
    unit = _MEMORY_MIB.get(match[2].lower()) if match else None
    if match is None or unit is None:
        fix = (
            "Write a number of GiB, for example 32, or a number and a unit, for example '512 MiB'."
        )
        raise InvalidValue(f"is {shown(value)}, not an amount of memory", fix, "wrong-type")
    return in_units(float(match[1]), unit, "MiB")


def _at_least(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"(\d{1,9})(\.\d{1,6})?\s*\+?", value.strip())
    if match is None:
        fix = "Write a number, for example 4; '4+' means the same."
        raise InvalidValue(f"is {shown(value)}, not a number of CPUs", fix, "wrong-type")
    return float(match[0].rstrip("+ ")) if match[2] else int(match[1])


def spot_markets(value: Any) -> tuple[Market, ...]:
    """``true``: only on spot. ``false``: never. ``allowed``: where it is expected to cost least."""
    if value == ALLOWED:
        return NON_SPOT + SPOT
    if isinstance(value, str) and value.lower() in ("allow", "any", "auto"):
        raise InvalidValue(f"is {shown(value)}", f"Did you mean {ALLOWED!r}?", "unknown-choice")
    try:
        return SPOT if boolean(value) else NON_SPOT
    except InvalidValue as error:
        error.fix = f"Write true, false or {ALLOWED}."
        raise


_market = choice([str(one.value) for one in Market], "market")


def markets(value: Any) -> tuple[Market, ...]:
    """Markets by name, the preferred first."""
    wanted = tuple(Market(one) for one in members(value, _market, len(Market)))
    if not wanted or len(set(wanted)) < len(wanted):
        raise InvalidValue(
            "is empty or names a market twice", "Write each market once.", "no-markets"
        )
    return wanted


def node_labels(value: Any) -> tuple[tuple[str, str], ...]:
    """Labels that a node must have."""
    return tuple(sorted(named(value, text, text, 64).items()))


def tolerations(value: Any) -> tuple[Toleration, ...]:
    """Taints that the job tolerates: ``spot`` or ``dedicated=team-a``."""

    def one(written: Any) -> Toleration:
        key, _, taint_value = text(written).partition("=")
        return Toleration(key=text(key), value=taint_value)

    return tuple(members([value] if isinstance(value, str) else value, one, 64))


# -- the request of a task ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRequest:
    """The GPUs of a task and the markets it may run on."""

    gpu: GpuRequest | None
    markets: tuple[Market, ...]
    choose_by: FlavorChoice


def task_request(values: dict[str, Any], share: MigSlice | MpsShare | None) -> TaskRequest:
    """Combine what holds for all alternatives with the alternatives."""
    listed = "ordered" if "ordered" in values else "any_of"
    if "any_of" in values and "ordered" in values:
        fix = "Keep 'any_of' when they are equally good, 'ordered' when the first is best."
        raise InvalidValue("is given together with 'any_of'", fix, "two-choices").inside("ordered")
    if listed not in values:
        whole, markets = values.get("accelerators"), _markets_of(values)
        in_order = whole is not None and whole.in_order
    else:
        try:
            whole, markets, in_order = _alternatives(values, in_order=listed == "ordered")
        except InvalidValue as error:
            raise error.inside(listed) from None
    return TaskRequest(
        gpu=_request(whole, share, values.get("gpu_memory", 0)),
        markets=markets,
        choose_by=FlavorChoice.ORDER if in_order else FlavorChoice.COST,
    )


def _markets_of(values: dict[str, Any], outer: dict[str, Any] | None = None) -> tuple[Market, ...]:
    if "markets" in values and "use_spot" in values:
        fix = "Keep one of them."
        raise InvalidValue("is given together with 'markets'", fix, "two-choices").inside(
            "use_spot"
        )
    markets: tuple[Market, ...] | None = values.get("markets") or values.get("use_spot")
    if markets is None:
        return _markets_of(outer) if outer else NON_SPOT
    return markets


def _alternatives(
    values: dict[str, Any], *, in_order: bool
) -> tuple[Accelerators | None, tuple[Market, ...], bool]:
    """Each model must be acceptable on each market: the model stores two sets."""
    chosen = values["ordered" if in_order else "any_of"]
    if not chosen:
        raise InvalidValue(
            "is empty", "Write at least one alternative, or remove the key.", "empty-list"
        )
    outer = values.get("accelerators")
    each = [(one.get("accelerators") or outer, _markets_of(one, values)) for one in chosen]
    if any(one is None for one, _ in each) and any(one is not None for one, _ in each):
        fix = "Write accelerators in every alternative, or submit two jobs."
        raise InvalidValue("has alternatives with GPUs and without", fix, "not-expressible")
    whole = (
        None if each[0][0] is None else _combine((one for one, _ in each if one), in_order=False)
    )
    models = whole.models if whole else ()
    all_markets = tuple(dict.fromkeys(market for _, markets in each for market in markets))
    pairs = {
        (m, k) for one, markets in each for m in (one.models if one else ("",)) for k in markets
    }
    if len(pairs) < max(1, len(models)) * len(all_markets):
        raise InvalidValue(
            "ties some models to some markets",
            "Allow each model on each market that is named, or submit one job for each alternative.",
            "not-expressible",
        )
    if in_order:
        _require_market_first(each, models)
    return whole, all_markets, in_order


def _require_market_first(
    each: list[tuple[Accelerators | None, tuple[Market, ...]]], models: tuple[str, ...]
) -> None:
    """Ordered jobs choose the market first, then the model; reject any other order."""
    groups = list(dict.fromkeys(markets for _, markets in each))
    ranks = [
        (groups.index(markets), models.index(model) if model else 0)
        for one, markets in each
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
    whole: Accelerators | None, share: MigSlice | MpsShare | None, min_memory_mib: int
) -> GpuRequest | None:
    if share is None:
        if whole is None:
            if min_memory_mib:
                fix = "Add 'accelerators: 1' for any GPU with this much memory."
                raise InvalidValue("has no effect without accelerators", fix, "missing-key").inside(
                    "gpu_memory"
                )
            return None
        return WholeGpus(count=whole.count, models=whole.models, min_memory_mib=min_memory_mib)
    if whole is None:
        return share
    if whole.count != 1 or min_memory_mib:
        fix = "Name only the model, as in 'accelerators: A100-80GB', or remove 'gpu'."
        problem = "asks for whole GPUs, but 'gpu' asks for a share of one"
        raise InvalidValue(problem, fix, "two-choices").inside("accelerators")
    if isinstance(share, MigSlice):
        return MigSlice(profile=share.profile, models=whole.models)
    return MpsShare(percent=share.percent, memory_mib=share.memory_mib, models=whole.models)
