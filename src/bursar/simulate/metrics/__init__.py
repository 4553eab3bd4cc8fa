"""Metrics of a run: waits, GPU use, fairness, losses and cost, counted step by step."""

from bursar.simulate.metrics.run_metrics import RunMetrics
from bursar.simulate.metrics.series import Gantt, Series
from bursar.simulate.metrics.summary import Summary
from bursar.simulate.report.comparison import compare_json, compare_table

__all__ = ["Gantt", "RunMetrics", "Series", "Summary", "compare_json", "compare_table"]
