"""What a run was worth: waits, use of the GPUs, fairness, losses and money, counted as it goes."""

from bursar.simulate.metrics.run_metrics import RunMetrics
from bursar.simulate.metrics.series import Gantt, Series
from bursar.simulate.metrics.summary import Summary
from bursar.simulate.report.comparison import compare_json, compare_table

__all__ = ["Gantt", "RunMetrics", "Series", "Summary", "compare_json", "compare_table"]
