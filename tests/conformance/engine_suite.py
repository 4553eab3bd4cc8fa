"""What every engine guarantees, tested only through ``ports.Engine``."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from bursar.model.engine_report import TasksEnded
from bursar.model.event import AttemptStarted
from bursar.model.jobs.run_spec import RunSpec
from bursar.ports import AttemptRef, StartOrder
from tests.conformance.engine_harness import EngineHarness, Listener, until
from tests.conformance.engine_orders import order, ref, tasks_on

SLEEP = "exec sleep 60"


@pytest.fixture
def trail(tmp_path: Path) -> Path:
    """A folder that jobs write into, outside the engine's own."""
    folder = tmp_path / "trail"
    folder.mkdir()
    return folder


def counting_runs(order: StartOrder, trail: Path, then: str = "") -> StartOrder:
    """The order with a script that appends a line each time it runs."""
    recipe = RunSpec(run=f'echo ran >> "$TRAIL"\n{then}', envs={"TRAIL": str(trail / "runs")})
    return replace(order, recipe=recipe)


def runs(trail: Path) -> int:
    file = trail / "runs"
    return len(file.read_text().splitlines()) if file.exists() else 0


def output(listener: Listener, of: AttemptRef, stream: str = "stdout", task: int = 0) -> str:
    for log in listener.engine.logs(of):
        if log.stream == stream and log.task == task:
            return "".join(Path(path).read_text() for path in log.paths)
    return ""


class EngineSuite:
    """The test class that inherits this provides the fixture ``harness``."""

    # -- ends --------------------------------------------------------------------------------------

    def test_a_job_starts_and_ends_and_each_is_reported_once(self, harness: EngineHarness) -> None:
        listener = harness.open()
        listener.engine.start(order("j-1", "true"))
        ended = listener.ended(ref("j-1"))
        listener.listen(0.1)
        assert (ended.code, ended.signal, ended.detail) == (0, None, "")
        assert [type(report) for report in listener.received] == [AttemptStarted, TasksEnded]

    @pytest.mark.parametrize(
        ("script", "code", "number"),
        [
            ("exit 3", 3, None),
            ("kill -KILL $$", None, 9),
            ("kill -SEGV $$", None, 11),
            ("no-such-program", 127, None),
        ],
    )
    def test_exit_code_or_signal_is_reported(
        self, harness: EngineHarness, script: str, code: int | None, number: int | None
    ) -> None:
        listener = harness.open()
        listener.engine.start(order("j-1", script))
        ended = listener.ended(ref("j-1"))
        assert (ended.code, ended.signal) == (code, number)

    def test_argv_is_not_interpreted_by_a_shell(self, harness: EngineHarness) -> None:
        listener = harness.open()
        listener.engine.start(order("j-1", RunSpec(argv=("echo", "$(id)", "; exit 7", "`id`"))))
        assert listener.ended(ref("j-1")).code == 0
        assert output(listener, ref("j-1")) == "$(id) ; exit 7 `id`\n"

    def test_the_two_output_streams_are_separate(self, harness: EngineHarness) -> None:
        listener = harness.open()
        listener.engine.start(order("j-1", "echo to-out; echo to-err >&2"))
        listener.ended(ref("j-1"))
        assert output(listener, ref("j-1")) == "to-out\n"
        assert output(listener, ref("j-1"), "stderr") == "to-err\n"
        assert listener.engine.logs(ref("j-none")) in ([], ())

    def test_setup_runs_once_on_each_node_before_run(
        self, harness: EngineHarness, trail: Path
    ) -> None:
        listener = harness.open()
        recipe = RunSpec(
            setup='echo "setup $BURSAR_NODE" >> "$TRAIL"; touch made',
            run='test -e made && echo "run $BURSAR_NODE" >> "$TRAIL"',
            envs={"TRAIL": str(trail / "runs")},
        )
        tasks = (*tasks_on("a"), *tasks_on("b"))
        listener.engine.start(order("j-1", recipe, tasks=[replace(tasks[0], count=2), tasks[1]]))
        assert listener.ended(ref("j-1")).code == 0
        lines = (trail / "runs").read_text().splitlines()
        assert sorted(lines[:2]) == ["setup a", "setup b"]
        assert sorted(lines[2:]) == ["run a", "run a", "run b"]

    def test_a_failed_setup_ends_the_attempt(self, harness: EngineHarness) -> None:
        listener = harness.open()
        listener.engine.start(order("j-1", RunSpec(setup="exit 4", run="echo ran")))
        ended = listener.ended(ref("j-1"))
        assert ended.code == 4 and "setup failed" in ended.detail
        assert listener.count(AttemptStarted, ref("j-1")) == 0
        assert output(listener, ref("j-1")) == ""

    # -- idempotence -------------------------------------------------------------------------------

    def test_a_repeated_start_changes_nothing(self, harness: EngineHarness, trail: Path) -> None:
        listener = harness.open()
        wanted = counting_runs(order("j-1", ""), trail)
        for _ in range(3):
            listener.engine.start(wanted)
        listener.ended(ref("j-1"))
        listener.engine.start(wanted)
        listener.listen(0.1)
        assert runs(trail) == 1
        assert listener.count(TasksEnded, ref("j-1")) == 1

    def test_a_second_attempt_runs_again(self, harness: EngineHarness, trail: Path) -> None:
        listener = harness.open()
        for attempt in (1, 2):
            listener.engine.start(counting_runs(order("j-1", "", attempt=attempt), trail))
            listener.ended(ref("j-1", attempt))
        assert runs(trail) == 2

    def test_settled_attempts_never_run_again(self, harness: EngineHarness, trail: Path) -> None:
        listener = harness.open()
        wanted = counting_runs(order("j-1", ""), trail)
        listener.engine.start(wanted)
        listener.ended(ref("j-1"))
        listener.engine.settled([ref("j-1")])
        listener.engine.start(wanted)
        assert listener.ended(ref("j-1")).code == 0
        assert runs(trail) == 1

    # -- stop --------------------------------------------------------------------------------------

    def test_stop_signals_before_it_kills(self, harness: EngineHarness) -> None:
        listener = harness.open()
        script = "trap 'echo saving; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
        listener.engine.start(order("j-1", script))
        until("the trap is set", lambda: "ready" in output(listener, ref("j-1")))
        listener.engine.stop(ref("j-1"), 30)
        ended = listener.ended(ref("j-1"))
        assert ended.code == 0 and "stopped as ordered" in ended.detail
        assert "saving" in output(listener, ref("j-1"))

    def test_a_task_that_ignores_the_signal_is_killed_after_its_grace_period(
        self, harness: EngineHarness
    ) -> None:
        listener = harness.open()
        script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
        listener.engine.start(order("j-1", script))
        until("the trap is set", lambda: "ready" in output(listener, ref("j-1")))
        listener.engine.stop(ref("j-1"), 60)
        listener.engine.stop(ref("j-1"), 60)
        listener.listen(0.1)
        assert listener.count(TasksEnded, ref("j-1")) == 0
        listener.engine.stop(ref("j-1"), 0)
        ended = listener.ended(ref("j-1"))
        assert ended.signal == signal.SIGKILL and "killed" in ended.detail

    def test_a_job_chooses_its_stop_signal(self, harness: EngineHarness) -> None:
        listener = harness.open()
        script = "trap 'exit 5' USR1; echo ready; while :; do sleep 0.05; done"
        listener.engine.start(order("j-1", RunSpec(run=script, stop_signal="SIGUSR1")))
        until("the trap is set", lambda: "ready" in output(listener, ref("j-1")))
        listener.engine.stop(ref("j-1"), 30)
        assert listener.ended(ref("j-1")).code == 5

    def test_an_attempt_can_be_stopped_right_after_its_start(self, harness: EngineHarness) -> None:
        listener = harness.open()
        for number in range(5):
            listener.engine.start(order(f"j-{number}", SLEEP))
            listener.engine.stop(ref(f"j-{number}"), 30)
        for number in range(5):
            assert "stopped as ordered" in listener.ended(ref(f"j-{number}")).detail

    def test_stopping_an_attempt_that_never_started_ends_it_and_prevents_its_start(
        self, harness: EngineHarness, trail: Path
    ) -> None:
        listener = harness.open()
        listener.engine.stop(ref("j-1"), 5)
        assert "before it was started" in listener.ended(ref("j-1")).detail
        listener.engine.start(counting_runs(order("j-1", ""), trail))
        listener.listen(0.2)
        assert runs(trail) == 0
        assert listener.count(AttemptStarted, ref("j-1")) == 0

    def test_stopping_an_ended_attempt_reports_its_end_again(self, harness: EngineHarness) -> None:
        listener = harness.open()
        listener.engine.start(order("j-1", "exit 6"))
        listener.ended(ref("j-1"))
        listener.received.clear()
        listener.engine.stop(ref("j-1"), 5)
        assert listener.ended(ref("j-1")).code == 6

    # -- gangs -------------------------------------------------------------------------------------

    def test_tasks_of_a_gang_get_their_ranks(self, harness: EngineHarness) -> None:
        listener = harness.open()
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_PORT")
        script = "printf '{%s}' \"$(for n in " + " ".join(names)
        script += '; do printf \'"%s": %s,\' $n ${!n}; done)\\"x\\": 0"'
        tasks = [replace(tasks_on("a")[0], count=2), *tasks_on("b")]
        listener.engine.start(order("j-1", script, tasks=tasks))
        assert listener.ended(ref("j-1")).code == 0
        ranks = [json.loads(output(listener, ref("j-1"), task=rank)) for rank in range(3)]
        assert [task["RANK"] for task in ranks] == [0, 1, 2]
        assert {task["WORLD_SIZE"] for task in ranks} == {3}
        assert [task["LOCAL_RANK"] for task in ranks] == [0, 1, 0]
        assert [task["LOCAL_WORLD_SIZE"] for task in ranks] == [2, 2, 1]
        assert [task["NODE_RANK"] for task in ranks] == [0, 0, 1]
        assert len({task["MASTER_PORT"] for task in ranks}) == 1

    def test_a_mixed_gang_is_one_gang_and_its_first_rank_is_an_anchor(
        self, harness: EngineHarness
    ) -> None:
        listener = harness.open()
        script = 'echo "$RANK of $WORLD_SIZE on $BURSAR_NODE"'
        mixed = order("j-1", script, tasks=tasks_on("a", "b"), anchors=tasks_on("c"))
        listener.engine.start(mixed)
        assert listener.ended(ref("j-1")).code == 0
        lines = [output(listener, ref("j-1"), task=rank).strip() for rank in range(3)]
        assert lines == ["0 of 3 on c", "1 of 3 on a", "2 of 3 on b"]

    def test_the_first_failure_ends_the_gang_and_is_its_exit(self, harness: EngineHarness) -> None:
        listener = harness.open()
        script = 'if [ "$RANK" = 1 ]; then exit 9; fi; exec sleep 60'
        listener.engine.start(order("j-1", script, tasks=tasks_on("a", "b", "c")))
        ended = listener.ended(ref("j-1"))
        assert ended.code == 9
        assert "task 1" in ended.detail and "b" in ended.detail

    def test_a_gang_that_cannot_start_completely_does_not_start(
        self, harness: EngineHarness
    ) -> None:
        listener = harness.open()
        recipe = RunSpec(argv=("/no/such/program",))
        listener.engine.start(order("j-1", recipe, tasks=tasks_on("a", "b")))
        ended = listener.ended(ref("j-1"))
        assert ended.code != 0 and "/no/such/program" in ended.detail
        assert listener.count(AttemptStarted, ref("j-1")) == 0

    # -- restarts of the control plane -------------------------------------------------------------

    def test_a_running_attempt_is_adopted_and_not_run_twice(
        self, harness: EngineHarness, trail: Path
    ) -> None:
        first = harness.open()
        wait = f'while [ ! -e "{trail}/go" ]; do sleep 0.02; done; exit 8'
        wanted = counting_runs(order("j-1", ""), trail, then=wait)
        first.engine.start(wanted)
        first.started(ref("j-1"))
        second = harness.open([ref("j-1")])
        second.started(ref("j-1"))
        second.engine.start(wanted)
        (trail / "go").touch()
        assert second.ended(ref("j-1")).code == 8
        assert runs(trail) == 1

    def test_an_unseen_end_is_reported_until_it_is_settled(
        self, harness: EngineHarness, trail: Path
    ) -> None:
        first = harness.open()
        wait = f'while [ ! -e "{trail}/go" ]; do sleep 0.02; done; exit 8'
        first.engine.start(counting_runs(order("j-1", ""), trail, then=wait))
        first.started(ref("j-1"))
        first.engine.close()
        (trail / "go").touch()
        for _ in range(2):
            again = harness.open([ref("j-1")])
            assert again.ended(ref("j-1")).code == 8
            again.engine.close()
        last = harness.open([ref("j-1")])
        last.ended(ref("j-1"))
        last.engine.settled([ref("j-1")])
        last.engine.close()
        after = harness.open([])
        after.listen(0.1)
        assert after.received == []

    def test_only_attempts_that_were_never_accepted_are_unknown(
        self, harness: EngineHarness
    ) -> None:
        listener = harness.open([ref("j-2")])
        listener.engine.start(order("j-1", "true"))
        assert listener.engine.unknown([ref("j-1"), ref("j-2"), ref("j-1", 2)]) == (
            ref("j-2"),
            ref("j-1", 2),
        )

    def test_attempts_that_are_not_listed_as_live_are_stopped(
        self, harness: EngineHarness, trail: Path
    ) -> None:
        first = harness.open()
        script = f'trap "touch {trail}/over; exit 0" TERM; echo ready; while :; do sleep 0.05; done'
        first.engine.start(order("j-1", script))
        until("the trap is set", lambda: "ready" in output(first, ref("j-1")))
        harness.open([])
        until("the attempt has ended", (trail / "over").exists)

    # -- secrets -----------------------------------------------------------------------------------

    def test_a_secret_reaches_the_process_and_nothing_else(
        self, harness: EngineHarness, tmp_path: Path
    ) -> None:
        listener = harness.open()
        canary = "canary-4f1c9a"
        script = (
            'test "$TOKEN" = canary-4f1c9a && touch seen; while [ ! -e go ]; do sleep 0.02; done'
        )
        script = script.replace(canary, 'canary-"4f1c9a"')
        recipe = RunSpec(run=script, secrets={"TOKEN": canary})
        listener.engine.start(order("j-1", recipe))
        listener.started(ref("j-1"))
        until("the secret is seen", lambda: bool(list(tmp_path.rglob("seen"))))
        for path in sorted(tmp_path.rglob("*")):
            assert not path.is_file() or canary.encode() not in path.read_bytes(), path
        for process in Path("/proc").glob("[0-9]*"):
            try:
                arguments = (process / "cmdline").read_bytes()
            except OSError:
                continue
            assert canary.encode() not in arguments
        next(tmp_path.rglob("seen")).with_name("go").touch()
        listener.ended(ref("j-1"))
