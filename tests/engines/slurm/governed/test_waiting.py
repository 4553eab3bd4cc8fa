"""``bursar why`` for a Slurm job, with stored output of a real Slurm 22.05."""

from __future__ import annotations

import pytest

from bursar.engines.slurm.governed.explain_job import explain, gpus_per_node
from bursar.model.errors import UserError
from tests.engines.slurm.governed.fake_slurm import FakeSlurm

NOW_MS = 1_794_796_170_000
JOB = (
    "JobId={id} JobName=wrap UserId=alice(20001) GroupId=alice(20001) MCS_label=N/A Priority={priority} "
    "Nice=0 Account=research QOS=training JobState={state} Reason={reason} Dependency=(null) "
    "TimeLimit=00:02:00 SubmitTime=1794796163 StartTime={start} EndTime={end} Partition=training "
    "NodeList={nodes} SchedNodeList=node[5-6] NumNodes=2-2 TRES=cpu=2,mem=200M,node=2,gres/gpu=16 "
    "TresPerNode=gres:gpu:8\n"
)
SPRIO = "605|0|0|5|100|500|0|0|0\n"
SSHARE = """\
Account|User|RawShares|NormShares|RawUsage|NormUsage|EffectvUsage|FairShare|LevelFS|GrpTRESMins|TRESRunMins
root|||0.000000|0||1.000000||||
 product||40|0.396040|0||0.250000||1.584160||
  product|carol|1|1.000000|0||1.000000|0.500000|1.000000||
 research||60|0.594059|0||0.750000||0.792079||
  research|alice|1|0.500000|0||1.000000|0.250000|0.500000||
  research|bob|1|0.500000|0||0.000000|0.750000|inf||
"""
SQUEUE = """\
9|PENDING|610|research|alice|2|gres:gpu:8|N/A
8|PENDING|700|product|carol|1|gres:gpu:4|N/A
7|PENDING|0|product|carol|1|gres:gpu:4|N/A
5|RUNNING|605|product|carol|1|gres:gpu:a100:8|1794796230
6|RUNNING|605|research|bob|2|gres:gpu:4|1794796200
"""
QOS = (
    "Current Association Manager state\nQOS Records\n"
    "QOS=training(2) UsageRaw=47.1 GrpJobs=N(4) GrpTRES=cpu=N(4),gres/gpu=24(20) GrpTRESMins=cpu=N(6) "
    "MaxWallPJ= MaxTRESPJ= Account Limits= research={MaxJobsPA=N(4) MaxTRESPA=gres/gpu=N(16)} "
    "User Limits= 20001={MaxJobsPU=4(4) MaxTRESPU=cpu=N(4),gres/gpu=16(12)} "
    "20003={MaxJobsPU=4(0) MaxTRESPU=cpu=N(0),gres/gpu=16(16)}\n"
)
ASSOC = (
    "Association Records\n"
    "ClusterName=lab Account=root UserName= ParentAccount= GrpTRESMins=billing=N(9) MaxJobs=\n"
    "ClusterName=lab Account=research UserName= ParentAccount=root(1) GrpTRESMins=cpu=N(5),"
    "billing=1000(1000) MaxJobs=\n"
    "ClusterName=lab Account=research UserName=alice(20001) ParentAccount= GrpTRESMins=billing=7(7)\n"
)


def slurm(**job: str) -> FakeSlurm:
    usual = {"id": "9", "priority": "610", "state": "PENDING", "reason": "Resources"}
    usual |= {"start": "1794796463", "end": "1794796583", "nodes": ""}
    return FakeSlurm(
        {
            "scontrol -o show job": JOB.format(**{**usual, **job}),
            "sprio": SPRIO,
            "sshare": SSHARE,
            "squeue": SQUEUE,
            "scontrol -o show assoc_mgr qos=training": QOS,
            "scontrol -o show assoc_mgr flags=assoc": ASSOC,
        }
    )


def lines(**job: str) -> list[str]:
    return list(explain(slurm(**job), job.get("id", "9"), NOW_MS).lines())


def test_a_job_without_free_resources_names_the_holders_and_the_planned_start() -> None:
    assert lines() == [
        "9 of alice (16 GPUs on 2 nodes for 2 min) is pending in account research, QOS training, partition "
        "training; 1 of 3 pending jobs are ahead of it.",
        "Why: the resources it requests are not free in training; it is the next to start (Resources).",
        "Held: training is in use by 5 of product (8 GPUs, 1 min left), 6 of research (8 GPUs, 30 s left).",
        "Priority: 605: 5 for job size, 100 for partition, 500 for QOS.",
        "Share: research has used 75.0 % of its level's total, its fair share is 59.4 %.",
        "Share: user alice has used 100.0 % of its level's total, its fair share is 50.0 %; its factor is "
        "0.250 of 1.",
        "When: Slurm plans to start it in 4 min on node[5-6], or sooner if other jobs end early.",
        "To do: Request fewer GPUs or nodes, or less time, so that it can be backfilled.",
    ]


def test_among_equal_priorities_the_earlier_job_is_ahead() -> None:
    assert "1 of 3 pending jobs are ahead of it" in lines(priority="700")[0]


def test_a_user_limit_is_shown_with_the_usage_of_this_user() -> None:
    text = lines(reason="QOSMaxGRESPerUser", start="Unknown")
    assert (
        "Limit: QOS training: MaxTRESPU gres/gpu is 16, of which 12 are in use; it requests 16."
        in text
    )
    assert "When: Slurm has not planned its start yet." in text
    assert not any(line.startswith("Held") for line in text)


def test_a_group_limit_is_shown_with_the_usage_of_all_jobs() -> None:
    text = lines(reason="QOSGrpGRES")
    assert (
        "Limit: QOS training: GrpTRES gres/gpu is 24, of which 20 are in use; it requests 16."
        in text
    )


def test_a_limit_on_the_number_of_jobs_names_no_resource() -> None:
    text = lines(reason="QOSMaxJobsPerUserLimit")
    assert "Limit: QOS training: MaxJobsPU is 4, of which 4 are in use." in text


def test_a_limit_is_searched_in_the_parent_accounts() -> None:
    text = lines(reason="AssocGrpBillingMinutes", start="Unknown")
    assert "Limit: account research: GrpTRESMins billing is 1000, of which 1000 are in use." in text
    assert "When: not before that is done." in text


def test_the_explanation_of_a_held_job_has_the_release_command() -> None:
    assert lines(reason="JobHeldUser", start="Unknown")[-1] == (
        "To do: Release it: 'scontrol release 9'."
    )


def test_a_running_job_is_described_as_running() -> None:
    text = lines(state="RUNNING", reason="None", nodes="node[1-2]")
    assert text == [
        "9 of alice (16 GPUs on 2 nodes for 2 min) of research is running on node[1-2], "
        "for 6 min more at most."
    ]


@pytest.mark.parametrize("job_id", ["j-abc", "9; rm", "", "9 8"])
def test_an_invalid_job_id_is_rejected_without_a_query(job_id: str) -> None:
    commands = slurm()
    with pytest.raises(UserError, match="not the id of a Slurm job"):
        explain(commands, job_id, NOW_MS)
    assert commands.asked == []


def test_an_unknown_job_is_refused() -> None:
    with pytest.raises(UserError) as gone:
        explain(FakeSlurm({}), "9", NOW_MS)
    assert gone.value.code == "no-such-job"


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("gres:gpu:t4:4", 4),
        ("gres:gpu:2", 2),
        ("gres/gpu:2", 2),
        ("gpu:a100:8(IDX:0-7)", 8),
        ("gres:gpu", 1),
        ("N/A", 0),
        ("gres:shard:3", 0),
    ],
)
def test_gpus_per_node_are_parsed(gres: str, gpus: int) -> None:
    assert gpus_per_node(gres) == gpus
