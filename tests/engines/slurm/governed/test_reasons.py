"""Every reason code of Slurm 22.05 is understood, and the sentences hold together."""

from __future__ import annotations

from pathlib import Path

import pytest

from bursar.engines.slurm.governed.reasons import StartCondition, meaning_of

CODES = (Path(__file__).parent / "reason_codes.txt").read_text(encoding="utf-8").split()
"""As slurmctld 22.05.8 has them, in its own order behind the first ones."""

NAMES = {"qos": "gold", "account": "vision", "partition": "gpu", "job": "12"}


def test_all_of_them_are_here() -> None:
    assert len(CODES) == len(set(CODES)) == 197


@pytest.mark.parametrize("code", CODES)
def test_a_code_has_words_and_something_to_do(code: str) -> None:
    meaning = meaning_of(code)
    assert "unknown reason" not in meaning.why
    why, do = meaning.why.format(**NAMES), meaning.do.format(**NAMES)
    assert "{" not in why + do and why and do.endswith(".")


def test_limits_are_taken_apart() -> None:
    limits = {code: meaning.limit for code in CODES if (meaning := meaning_of(code)).limit}
    assert len(limits) == 144
    fields = {
        "QOSGrpGRES": ("qos", "GrpTRES", "gres/", ""),
        "QOSMaxGRESPerUser": ("qos", "MaxTRESPU", "gres/", "user"),
        "MaxGRESPerAccount": ("qos", "MaxTRESPA", "gres/", "account"),
        "AssocGrpBillingMinutes": ("account", "GrpTRESMins", "billing", ""),
        "AssocGrpCPURunMinutesLimit": ("account", "GrpTRESRunMins", "cpu", ""),
        "AssocMaxJobsLimit": ("account", "MaxJobs", "Jobs", ""),
        "QOSMaxJobsPerUserLimit": ("qos", "MaxJobsPU", "Jobs", "user"),
        "QOSMaxWallDurationPerJobLimit": ("qos", "MaxWallPJ", "Wall", "job"),
        "QOSMinCpuNotSatisfied": ("qos", "MinTRESPJ", "cpu", ""),
        "QOSMaxMemoryPerNode": ("qos", "MaxTRESPN", "mem", "node"),
    }
    for code, (scope, field, resource, per) in fields.items():
        limit = limits[code]
        assert limit is not None
        assert (limit.scope, limit.field, limit.resource, limit.per) == (
            scope,
            field,
            resource,
            per,
        )


@pytest.mark.parametrize(
    ("code", "outlook"),
    [
        ("Priority", StartCondition.WAITS),
        ("QOSGrpGRES", StartCondition.WAITS),
        ("QOSMaxGRESPerJob", StartCondition.USER),
        ("BadConstraints", StartCondition.USER),
        ("AssocGrpBillingMinutes", StartCondition.OPERATOR),
        ("PartitionDown", StartCondition.OPERATOR),
    ],
)
def test_who_has_to_act(code: str, outlook: StartCondition) -> None:
    assert meaning_of(code).outlook is outlook


def test_details_behind_a_code_are_no_other_code() -> None:
    told = meaning_of("ReqNodeNotAvail, UnavailableNodes:node[1-4]")
    assert told.code == "ReqNodeNotAvail"


def test_a_code_of_a_later_slurm_is_told_as_it_is() -> None:
    assert "'NewInSlurm99'" in meaning_of("NewInSlurm99").why
