"""``python -m tools.mutants``: how many small changes to the pure parts do the tests notice?"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tools.mutants.judge import Outcome, Verdict, judge
from tools.mutants.sample import Project, candidates_in, sample
from tools.mutants.source import Source

PARTS = ("model", "core", "accounting", "governance")
TEST_FOLDERS = (*PARTS, "catalog", "golden", "oracle", "properties", "simulate")


def main() -> None:
    options = _options()
    project = Project(
        root=Path(__file__).resolve().parents[2],
        package="src/bursar",
        parts=(options.package,) if options.package else PARTS,
        test_folders=tuple(f"tests/{name}" for name in TEST_FOLDERS),
    )
    start = time.monotonic()
    sources = {source.path: source for source in project.sources(options.path)}
    candidates = candidates_in(sources)
    mutants = sample(project, sources, candidates, options.mutants, options.seed)
    _print(f"{len(mutants)} of {len(candidates)} mutants, seed {options.seed}")
    if options.list:
        for mutant in mutants:
            _print(_line(sources, Verdict(mutant, Outcome.NOT_COVERED), ""))
        return
    verdicts = []
    for verdict in judge(
        project,
        mutants,
        jobs=options.jobs,
        slowest_seconds=options.slowest_seconds,
        report=_print,
    ):
        _print(_line(sources, verdict, verdict.outcome))
        verdicts.append(verdict)
    _print(_summary(sources, verdicts))
    _print(f"took {(time.monotonic() - start) / 60:.1f} minutes")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("--mutants", type=int, default=100, help="how many (default 100)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (default 1)")
    parser.add_argument("--package", choices=PARTS, help="only of this package")
    parser.add_argument("--path", default="*", help="only of files like core/qu*.py")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default 2)")
    parser.add_argument(
        "--slowest-seconds",
        type=float,
        default=5,
        help="leave out tests that take more processor time than this (default 5)",
    )
    parser.add_argument("--list", action="store_true", help="show the sample and judge nothing")
    return parser.parse_args()


def _line(sources: dict[str, Source], verdict: Verdict, word: str) -> str:
    mutant = verdict.mutant
    old, new = sources[mutant.path].changed_lines(mutant)
    return f"{word:<11} {mutant.path}:{mutant.line}  {mutant.operator}  {old}  ->  {new}"


def _summary(sources: dict[str, Source], verdicts: list[Verdict]) -> str:
    """The survivors with their diffs, then the figure."""
    survivors = sorted(
        (verdict for verdict in verdicts if not verdict.is_killed),
        key=lambda verdict: verdict.mutant.sort_key,
    )
    texts = [
        f"\n{verdict.outcome}: {verdict.mutant.path}:{verdict.mutant.line}  {verdict.mutant.operator}\n"
        + sources[verdict.mutant.path].unified_diff(verdict.mutant)
        for verdict in survivors
    ]
    killed = len(verdicts) - len(survivors)
    percent = 100 * killed / len(verdicts) if verdicts else 100
    counts = [sum(one.outcome is outcome for one in verdicts) for outcome in Outcome]
    parts = ", ".join(f"{count} {outcome}" for count, outcome in zip(counts, Outcome, strict=True))
    return "\n".join(
        [*texts, f"\n{parts}", f"killed {killed} of {len(verdicts)} ({percent:.0f} %)"]
    )


def _print(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
