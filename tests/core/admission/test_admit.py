"""Invalid jobs are refused with a code, the field and a fix."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bursar.core.admission import admit as admission
from bursar.core.admission.admission_request import AdmissionRequest
from bursar.core.admission.admit import check_job, submissions
from bursar.core.state.fleet_state import FleetState
from bursar.model.errors import UserError
from bursar.model.event import JobCancelled, NodeLost
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import (
    Constraints,
    JobSpec,
    SliceLayer,
    Slo,
    Spread,
    TaskGroup,
    Topology,
    WholeGpus,
)
from bursar.model.units import HOUR_MS, MINUTE_MS
from tests.core.admission.test_fleet_rules import FLEET_CASES, POLICY_CASES, TENANT_CASES
from tests.support import (
    fleet_of,
    gang,
    group,
    job,
    mig_job,
    mps_job,
    pool,
    queue,
    quota,
    state_of,
    submit,
    tenant,
)

NOW_MS = 10 * HOUR_MS
KNOWN_MODELS = ("a100-80gb", "h100-80gb", "t4-16gb")


def world() -> FleetState:
    """Four A100 nodes in two racks, and two of T4 elsewhere; one queue with quota, one without."""
    near = fleet_of(
        pool("a100", nodes=4, disk_gib=100),
        pool("t4", nodes=2, gpus=4, model="t4", cluster="far"),
        topology={"block": 4, "rack": 2},
    )
    fleet = replace(
        near,
        clusters=(near.clusters[0], replace(near.clusters[1], topology_levels=("zone",))),
        nodes=tuple(
            replace(node, labels={"zone": "z1"}) if node.pool == "t4" else node
            for node in near.nodes
        ),
    )
    tenants = (
        tenant("acme", quota={"t4-16gb/owned": 4}),
        queue("research", parent="acme", quota={"a100-80gb/owned": quota(8, borrow=4)}),
        queue("vision", parent="acme", quota={"a100-80gb/owned": 24}),
        tenant("empty", parent="acme"),
    )
    state = state_of(fleet, tenants)
    submit(state, job("first", queue="vision"))
    submit(state, job("lost", queue="vision"))
    state.apply(JobCancelled(at_ms=0, job_id="lost"))
    submit(state, job("sweep", queue="vision"), job_id="sweep[0]")
    return state


def request_for(
    spec: JobSpec, job_id: str, state: FleetState, at_ms: int = NOW_MS
) -> AdmissionRequest:
    return AdmissionRequest(
        spec=spec, job_id=job_id, at_ms=at_ms, state=state, known_models=KNOWN_MODELS
    )


def admit(spec: JobSpec, job_id: str = "new") -> None:
    check_job(request_for(spec, job_id, world()))


def wrong(spec: JobSpec, **fields: Any) -> JobSpec:
    """A spec with values that its types do not allow."""
    return replace(spec, **fields)


def wrong_group(**fields: Any) -> JobSpec:
    return wrong(job(), groups=(replace(TaskGroup(gpu=WholeGpus(count=1)), **fields),))


def wrong_gpus(count: Any) -> JobSpec:
    return wrong_group(gpu=WholeGpus(count=count))


def together(count: int = 4, **fields: Any) -> JobSpec:
    return job(gpus=1, tasks=count, topology=Topology(**fields))


@dataclass(frozen=True, slots=True)
class Case:
    """The submission, the code of the refusal, and words of its message."""

    spec: JobSpec
    code: str
    words: tuple[str, ...]


JOB_CASES: dict[str, Case] = {
    "GPUs are not negative": Case(
        wrong_gpus(-1), "out-of-range", ("groups[0].gpu.count is -1", "at least 1")
    ),
    "GPUs are not zero": Case(
        wrong_gpus(0), "out-of-range", ("groups[0].gpu.count is 0", "leave gpu out")
    ),
    "GPUs are not true": Case(
        wrong_gpus(True), "wrong-type", ("groups[0].gpu.count is True", "whole number")
    ),
    "GPUs are not 2.0": Case(
        wrong_gpus(2.0), "wrong-type", ("groups[0].gpu.count is 2.0", "whole number")
    ),
    "GPUs are not text": Case(
        wrong_gpus("8"), "wrong-type", ("groups[0].gpu.count is '8'", "whole number")
    ),
    "GPUs are not beyond 2^53": Case(
        wrong_gpus(2**53 + 1), "out-of-range", ("groups[0].gpu.count is 9,007,199,254,740,993",)
    ),
    "a number of a thousand digits is not printed": Case(
        wrong_gpus(10**1000), "out-of-range", ("longer than 30 digits",)
    ),
    "tasks are not negative": Case(
        wrong_group(count=-3), "out-of-range", ("groups[0].count is -3", "at least 1")
    ),
    "CPUs are not negative": Case(
        wrong_group(cpu_milli=-1), "out-of-range", ("groups[0].cpu_milli is -1", "at least 0")
    ),
    "groups are a tuple": Case(
        wrong(job(), groups=[TaskGroup()]), "wrong-type", ("groups", "list", "Write a tuple")
    ),
    "a GPU request is one of three kinds": Case(
        wrong_group(gpu=8), "wrong-type", ("groups[0].gpu is 8", "WholeGpus or MigSlice")
    ),
    "a pair is a pair": Case(
        wrong(job(), constraints=Constraints(node_labels=(("a",),))),  # type: ignore[arg-type]
        "wrong-type",
        ("constraints.node_labels[0] has 1 values", "exactly 2"),
    ),
    "a choice is one of the list": Case(
        wrong(job(), constraints=replace(Constraints(), choose_by="price")),  # type: ignore[arg-type]
        "unknown-choice",
        ("constraints.choose_by is 'price'", "order, cost"),
    ),
    "a percent is at most 100": Case(
        mps_job(percent=101), "out-of-range", ("groups[0].gpu.percent is 101", "1 to 100")
    ),
    "a percent is at least 1": Case(
        mps_job(percent=0), "out-of-range", ("groups[0].gpu.percent is 0", "1 to 100")
    ),
    "an array of a billion is refused, not built": Case(
        job(array_size=10**9), "array-size", ("array_size is 1,000,000,000", "10,000", "split")
    ),
    "an array has a member": Case(job(array_size=0), "array-size", ("array_size is 0", "from 1")),
    "times are not negative": Case(
        wrong(job(), max_run_ms=-1), "out-of-range", ("max_run_ms is -1", "at least 1")
    ),
    "retries are not negative": Case(
        job(retries=-1), "out-of-range", ("retries is -1", "at least 0")
    ),
    "a job has a name": Case(job(""), "empty-text", ("name is empty", "Write a name")),
    "a name is not endless": Case(
        job("x" * 300), "text-too-long", ("name has 300 characters", "253")
    ),
    "a name is one line": Case(job("a\nb"), "unprintable-text", ("name is 'a\\nb'", "line breaks")),
    "a job has groups": Case(gang("g"), "no-groups", ("groups is empty", "at least one group")),
    "groups have names of their own": Case(
        gang("g", group("a"), group("a")),
        "duplicate-group",
        ("groups", "'a'", "Use each name once"),
    ),
    "an elastic group's least is not above its most": Case(
        job(tasks=2, min_tasks=3),
        "min-over-count",
        ("groups[0].min_count is 3", "count, which is 2", "from 1 to 2"),
    ),
    "the queue exists": Case(
        job(queue="reserch"), "unknown-queue", ("queue is 'reserch'", "Did you mean 'research'?")
    ),
    "the queue is a queue": Case(
        job(queue="acme"), "not-a-queue", ("queue is 'acme'", "below it: research, vision")
    ),
    "a tenant without queues is not a queue": Case(
        job(queue="empty"), "not-a-queue", ("queue is 'empty'", "no queue below it")
    ),
    "the priority class exists": Case(
        job(priority_class="hihg"),
        "unknown-priority-class",
        ("priority_class is 'hihg'", "Did you mean 'high'?"),
    ),
    "a job is not expected to outlast its limit": Case(
        job(hours=3, max_hours=2),
        "expected-over-max",
        ("expected_run_ms is 3 h", "max_run_ms, 2 h", "at most 7200000"),
    ),
    "a deadline is ahead": Case(
        job(deadline_ms=NOW_MS - 5 * MINUTE_MS),
        "deadline-past",
        ("deadline_ms", "5 min before", f"after {NOW_MS}"),
    ),
    "a deadline or an objective": Case(
        job(deadline_ms=NOW_MS + 1, slo=Slo(gpu_ms=1, within_ms=1)),
        "two-deadlines",
        ("deadline_ms", "slo", "one of them"),
    ),
    "an objective can be met with the GPUs asked for": Case(
        job(gpus=2, slo=Slo(gpu_ms=100 * HOUR_MS, within_ms=24 * HOUR_MS)),
        "objective-out-of-reach",
        ("slo.within_ms is 1 d", "2 d 2 h on the 2 GPUs", "at least 5 GPUs"),
    ),
    "a dependency exists": Case(
        job(depends_on=("frist",)),
        "unknown-dependency",
        ("depends_on[0] is 'frist'", "Did you mean 'first'?"),
    ),
    "an array is named by its members": Case(
        job(depends_on=("first", "sweep")),
        "unknown-dependency",
        ("depends_on[1] is 'sweep'", "from 'sweep[0]' on"),
    ),
    "a job does not wait for itself": Case(
        job(depends_on=("new",)), "depends-on-itself", ("depends_on[0] is 'new'", "before this one")
    ),
    "a member does not wait for its own array": Case(
        job(depends_on=("new[0]",), array_size=2), "depends-on-itself", ("'new[0]'", "before")
    ),
    "a job does not wait for what was cancelled": Case(
        job(depends_on=("lost",)),
        "dependency-failed",
        ("depends_on[0] is 'lost', which was cancelled", "Submit that job again"),
    ),
    "dependencies of an array stay few": Case(
        job(depends_on=("first",) * 11, array_size=10_000),
        "too-many-dependencies",
        ("depends_on has 110,000", "100,000"),
    ),
    "a GPU model exists": Case(
        job(models=("a100-80bg",)),
        "unknown-gpu-model",
        ("groups[0].gpu.models[0] is 'a100-80bg'", "Did you mean 'a100-80gb'"),
    ),
    "a model that exists elsewhere fits no pool": Case(
        job(models=("h100-80gb",)),
        "no-pool-fits",
        ("groups", "a100 has a100-80gb, the job wants h100-80gb", "Request "),
    ),
    "a MIG profile exists": Case(
        mig_job(profile="1g.10g"),
        "unknown-mig-profile",
        ("groups[0].gpu.profile is '1g.10g'", "a100-80gb", "Did you mean '1g.10gb"),
    ),
    "a board without MIG is not cut": Case(
        mig_job(models=("t4-16gb",)),
        "no-pool-fits",
        ("t4 cannot be partitioned into 1g.10gb", "Request "),
    ),
    "a level exists": Case(
        together(required="rak"),
        "unknown-topology-level",
        ("constraints.topology.required is 'rak'", "Did you mean 'rack'?"),
    ),
    "a level to spread over exists": Case(
        job(spread=Spread(level="row")),
        "unknown-topology-level",
        ("constraints.spread.level is 'row'", "block, node, rack, zone"),
    ),
    "levels are of one cluster": Case(
        together(required="zone", layers=(SliceLayer(level="rack", size=2),)),
        "levels-of-two-clusters",
        ("constraints.topology.required", "zone > node; block > rack > node"),
    ),
    "required or preferred": Case(
        together(required="rack", preferred="block"),
        "required-and-preferred",
        ("constraints.topology.preferred is 'block'", "one of them"),
    ),
    "spread or topology": Case(
        job(topology=Topology(required="rack"), spread=Spread()),
        "spread-with-topology",
        ("constraints.spread", "topology", "Write spread"),
    ),
    "layers go from wide to narrow": Case(
        together(layers=(SliceLayer(level="rack", size=4), SliceLayer(level="block", size=2))),
        "layers-do-not-nest",
        ("constraints.topology.layers are rack > block", "block > rack > node"),
    ),
    "the gang's level is not inside its layers": Case(
        together(required="rack", layers=(SliceLayer(level="block", size=4),)),
        "layers-do-not-nest",
        ("constraints.topology.layers are rack > block", "block > rack > node"),
    ),
    "a layer divides the one around it": Case(
        together(layers=(SliceLayer(level="block", size=4), SliceLayer(level="rack", size=3))),
        "layers-do-not-divide",
        (
            "constraints.topology.layers[1].size is 3",
            "enclosing layer's 4",
            "divides the size of the layer before",
        ),
    ),
    "the outermost layer divides the tasks": Case(
        together(5, layers=(SliceLayer(level="rack", size=2),)),
        "layers-do-not-divide",
        ("groups[0].count is 5", "Write 6 tasks"),
    ),
    "a layer has a size": Case(
        together(layers=(SliceLayer(level="rack", size=0),)),
        "out-of-range",
        ("constraints.topology.layers[0].size is 0", "at least 1"),
    ),
    "some market is allowed": Case(
        job(markets=()), "no-markets", ("constraints.markets is empty", "at least one of owned")
    ),
    "a market is named once": Case(
        job(markets=(Market.SPOT, Market.SPOT)),
        "duplicate-market",
        ("constraints.markets", "spot, spot", "each once"),
    ),
    "anchors are in addition to spot": Case(
        job(tasks=4, anchors_percent=30),
        "anchors-without-choice",
        ("constraints.anchors_percent is 30", "no spot", "use_spot: allowed"),
    ),
    "anchors stand on capacity that stays": Case(
        job(tasks=4, anchors_percent=30, markets=(Market.SPOT,)),
        "anchors-without-choice",
        ("allow only spot", "another market"),
    ),
    "anchors are a part of the tasks": Case(
        job(tasks=4, anchors_percent=101, markets=tuple(Market)),
        "out-of-range",
        ("constraints.anchors_percent is 101", "from 0 to 100"),
    ),
    "some pool has the market": Case(
        job(markets=(Market.SPOT,)), "no-pool-fits", ("a100 is owned", "t4 is owned")
    ),
    "a task fits a node": Case(
        job(gpus=16, queue="vision"),
        "no-pool-fits",
        ("a100 nodes have 8 GPUs, a task wants 16", "t4 nodes have 4 GPUs"),
    ),
    "a gang fits an empty pool": Case(
        job(gpus=8, tasks=5, queue="vision"),
        "gang-too-large",
        ("groups", "a100 has 4 nodes for 1 task of 'main' each, 4 in total; 5 are needed"),
    ),
    "groups fit an empty pool together": Case(
        gang("g", group("a", 3, gpus=8), group("b", 2, gpus=8), queue="vision"),
        "gang-too-large",
        ("a100 has 32 GPUs, the groups need 40 in total", "fewer"),
    ),
    "groups fit an empty pool's memory together": Case(
        gang("g", group("a", 3, memory_gib=800), group("b", 3, memory_gib=800), queue="vision"),
        "gang-too-large",
        ("a100 has 4096 GiB of memory in total, the groups need 4800 GiB",),
    ),
    "slices of a gang fit an empty pool": Case(
        mig_job(profile="4g.40gb", tasks=33, queue="vision"),
        "gang-too-large",
        ("a100 has 4 nodes for 8 tasks", "32 in total; 33 are needed"),
    ),
    "shares of a gang fit an empty pool": Case(
        mps_job(percent=60, tasks=33, models=("a100-80gb",)),
        "gang-too-large",
        ("nodes for 8 tasks of 'main' each, 32 in total; 33 are needed",),
    ),
    "a billion tasks are refused at once": Case(
        mig_job(tasks=10**9), "gang-too-large", ("1,000,000,000 are needed",)
    ),
    "a required rack is large enough": Case(
        job(gpus=8, tasks=3, queue="vision", topology=Topology(required="rack")),
        "gang-too-large",
        ("a100 holds 2 tasks of 'main' in its largest rack, 3 must be together",),
    ),
    "a pool without the level does not count": Case(
        job(gpus=1, models=("t4-16gb",), topology=Topology(required="rack")),
        "no-pool-fits",
        ("t4 has no topology level rack",),
    ),
    "a layer fits its domain": Case(
        job(
            gpus=8,
            tasks=4,
            queue="vision",
            topology=Topology(layers=(SliceLayer(level="node", size=2),)),
        ),
        "gang-too-large",
        ("a100 holds 1 task of 'main' in its largest node, 2 must be together",),
    ),
    "there are enough domains to spread over": Case(
        job(
            tasks=5, queue="vision", models=("a100-80gb",), spread=Spread(level="rack", max_tasks=2)
        ),
        "gang-too-large",
        ("a100 has 2 domains of rack for at most 2 tasks each, 4 in total; 5 are needed",),
    ),
    "some node has the labels": Case(
        job(node_labels=(("color", "red"),)), "no-pool-fits", ("no node with the labels color=red",)
    ),
    "a queue could hold it with all it may borrow": Case(
        job(gpus=8, tasks=2),
        "over-potential-quota",
        (
            "'research'",
            "a100-80gb/owned: needs 16 GPUs, may hold at most 12 GPUs",
            "Request less",
        ),
    ),
}


@pytest.mark.parametrize("sentence", JOB_CASES)
def test_a_job_is_refused_unless(sentence: str) -> None:
    case = JOB_CASES[sentence]
    with pytest.raises(UserError) as refusal:
        admit(case.spec)
    assert refusal.value.code == case.code
    for word in case.words:
        assert word in str(refusal.value)
    assert refusal.value.fix.endswith((".", "?"))


GOOD_JOBS: dict[str, JobSpec] = {
    "one GPU": job(),
    "a whole pool": job(gpus=8, tasks=3, queue="vision"),
    "an elastic gang of which only the least fits": job(
        gpus=8, tasks=500, min_tasks=1, queue="vision"
    ),
    "all that may be borrowed": job(gpus=4, tasks=3),
    "another flavor when one has too little quota": job(gpus=1, tasks=8, cpu=1),
    "a slice on every GPU": mig_job(tasks=12),
    "a share": mps_job(percent=100, gpu_memory_gib=79),
    "no GPU": job(gpus=0, cpu=2),
    "one model that exists only elsewhere": job(models=("h100-80gb", "a100-80gb")),
    "a rack that holds it": job(
        gpus=8, tasks=2, queue="vision", topology=Topology(required="rack")
    ),
    "layers in order": job(
        gpus=4,
        tasks=4,
        queue="vision",
        topology=Topology(
            required="block",
            layers=(SliceLayer(level="block", size=4), SliceLayer(level="rack", size=2)),
        ),
    ),
    "a launcher with layered workers": gang(
        "g",
        group("launcher", cpu=1),
        group("worker", 4, gpus=2),
        topology=Topology(layers=(SliceLayer(level="rack", size=4),)),
    ),
    "waiting for others": job(depends_on=("first", "sweep[0]")),
    "an objective within reach": job(
        gpus=4, slo=Slo(gpu_ms=4 * HOUR_MS, within_ms=HOUR_MS), queue="vision"
    ),
    "the largest array": job(array_size=10_000),
}


@pytest.mark.parametrize("sentence", GOOD_JOBS)
def test_a_job_is_admitted_with(sentence: str) -> None:
    admit(GOOD_JOBS[sentence])


def test_all_problems_of_a_job_are_reported_at_once() -> None:
    with pytest.raises(UserError) as refusal:
        admit(job(queue="nowhere", priority_class="none", hours=2, max_hours=1))
    message = str(refusal.value)
    assert "3 problems" in message
    assert refusal.value.code == "unknown-queue"
    for field in ("queue", "priority_class", "expected_run_ms"):
        assert f"\n- {field} is" in message


def test_a_long_list_of_problems_is_cut() -> None:
    groups = tuple(TaskGroup(name=f"g{n}", count=-1) for n in range(20))
    with pytest.raises(UserError, match="20 problems") as refusal:
        admit(wrong(job(), groups=groups))
    assert "and 12 more" in str(refusal.value)


def test_a_used_id_is_refused() -> None:
    for job_id, spec in (("first", job()), ("lost", job()), ("sweep", job(array_size=3))):
        with pytest.raises(UserError, match="is already taken") as refusal:
            admit(spec, job_id)
        assert refusal.value.code == "job-id-taken"


def test_an_array_becomes_one_job_for_each_index() -> None:
    state = world()
    spec = job("tune", array_size=3, priority_class="high")
    events = submissions(request_for(spec, "tune-7", state))
    assert [event.job_id for event in events] == ["tune-7[0]", "tune-7[1]", "tune-7[2]"]
    assert [event.spec.name for event in events] == ["tune[0]", "tune[1]", "tune[2]"]
    assert {(event.priority, event.at_ms, event.spec.array_size) for event in events} == {
        (100, NOW_MS, 1)
    }
    for event in events:
        state.apply(event)
    assert len({id(state.jobs[event.job_id].backlog) for event in events}) == 1


def test_a_single_job_keeps_its_id_and_spec() -> None:
    spec = job("train")
    (event,) = submissions(request_for(spec, "train-1", world()))
    assert (event.job_id, event.spec, event.priority) == ("train-1", spec, 0)


def test_a_spot_pool_without_nodes_still_admits_jobs() -> None:
    """Its nodes may return at any time; an owned pool without nodes could never run a job."""
    for market, let_in in ((Market.SPOT, True), (Market.OWNED, False)):
        state = state_of(fleet_of(pool("only", 1, market=market)))
        (node,) = state.pool_of_node
        state.apply(NodeLost(at_ms=0, node=node))
        spec = job("train", markets=(market,))
        if let_in:
            assert submissions(request_for(spec, "train", state, at_ms=1))
        else:
            with pytest.raises(UserError, match="has no nodes"):
                submissions(request_for(spec, "train", state, at_ms=1))


def test_admission_does_not_change_the_state() -> None:
    state = world()
    before = (len(state.backlogs.by_key), len(state.jobs), state.limited)
    submissions(request_for(job("odd", cpu=3.25), "odd", state))
    assert (len(state.backlogs.by_key), len(state.jobs), state.limited) == before


# -- the codes -------------------------------------------------------------------------------------


def test_every_code_is_tested_and_documented() -> None:
    folder = Path(admission.__file__).parent
    text = "".join(file.read_text() for file in sorted(folder.glob("*.py")))
    codes = set(
        re.findall(r'(?:code=|problem\(|: |_wrong\(|code: str = )"([a-z]+(?:-[a-z]+)+)"', text)
    )
    codes |= {f"duplicate-{thing}" for thing in ("cluster", "pool", "node")}
    tested = {case.code for case in JOB_CASES.values()} | {"job-id-taken"}
    for table in (FLEET_CASES, TENANT_CASES, POLICY_CASES):
        tested |= {case[1] for case in table.values()}
    assert codes == tested
    page = (folder / "README.md").read_text()
    assert {code for code in codes if f"`{code}`" not in page} == set()
