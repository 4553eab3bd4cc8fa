"""The published costs of greedy and Uniform Progress.

Dollars for each 48-hour job. In the first table jobs start at the 300 published ticks of each of eight
series, so our figures must be equal to the cent. For the second table the starts and three of the nine
series were not published, so our figures are only close.
"""

from __future__ import annotations

from dataclasses import dataclass

from bursar.simulate.spot_study.cells import JobSize
from studies.spot_deadlines.sources import TWO_MONTHS, TWO_WEEKS


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCell:
    """Deadline and change-over in hours, and mean dollars."""

    group: str
    deadline_hours: float
    change_over_hours: float
    greedy_usd: float
    uniform_progress_usd: float

    @property
    def size(self) -> JobSize:
        return JobSize(deadline_hours=self.deadline_hours, change_over_hours=self.change_over_hours)


def _cells(group: str, rows: tuple[tuple[float, float, float, float], ...]) -> list[PublishedCell]:
    return [
        PublishedCell(
            group=group,
            deadline_hours=deadline,
            change_over_hours=change_over,
            greedy_usd=greedy,
            uniform_progress_usd=uniform,
        )
        for deadline, change_over, greedy, uniform in rows
    ]


PUBLISHED = (
    *_cells(
        TWO_WEEKS,
        (
            (60, 0.2, 116.01, 106.92),
            (52, 0.2, 129.20, 122.78),
            (70, 0.2, 106.45, 97.98),
            (80, 0.2, 96.14, 92.61),
            (60, 0.4, 122.25, 118.90),
            (52, 0.05, 124.83, 106.91),
            (70, 0.05, 98.26, 85.53),
            (60, 0.02, 108.26, 89.27),
        ),
    ),
    *_cells(
        TWO_MONTHS,
        (
            (60, 0.2, 95.53, 87.42),
            (52, 0.2, 110.32, 101.56),
            (70, 0.2, 85.59, 80.86),
            (60, 0.4, 99.96, 96.03),
            (52, 0.05, 106.54, 87.80),
            (70, 0.05, 80.64, 73.70),
        ),
    ),
)
