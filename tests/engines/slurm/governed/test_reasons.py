"""Every reason code of Slurm 22.05 has an explanation and advice."""

from __future__ import annotations

from pathlib import Path

import pytest

from bursar.engines.slurm.governed.reasons import StartCondition, meaning_of

CODES = (Path(__file__).parent / "reason_codes.txt").read_text(encoding="utf-8").split()
"""The codes of slurmctld 22.05.8, in its own order after the first ones."""

NAMES = {"qos": "gold", "account": "vision", "partition": "gpu", "job": "12"}


def test_the_list_of_codes_is_complete() -> None:
    assert len(CODES) == len(set(CODES)) == 197


@pytest.mark.parametrize("code", CODES)
def test_a_code_has_an_explanation_and_advice(code: str) -> None:
    meaning = meaning_of(code)
    assert "unknown reason" not in meaning.why
    why, do = meaning.why.format(**NAMES), meaning.do.format(**NAMES)
    assert "{" not in why + do and why and do.endswith(".")


def test_limits_are_parsed() -> None:
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
def test_a_code_has_its_start_condition(code: str, outlook: StartCondition) -> None:
    assert meaning_of(code).outlook is outlook


def test_details_after_a_code_are_ignored() -> None:
    meaning = meaning_of("ReqNodeNotAvail, UnavailableNodes:node[1-4]")
    assert meaning.code == "ReqNodeNotAvail"


def test_a_code_of_a_later_slurm_is_shown_unchanged() -> None:
    assert "'NewInSlurm99'" in meaning_of("NewInSlurm99").why
