"""What a run was worth: waits, use of the GPUs, fairness, losses and money, counted as it goes."""

from bursar.simulate.measures.comparison import compare_json, compare_table
from bursar.simulate.measures.fold import Measures
from bursar.simulate.measures.series import Gantt, Series
from bursar.simulate.measures.summary import Summary

__all__ = ["Gantt", "Measures", "Series", "Summary", "compare_json", "compare_table"]
