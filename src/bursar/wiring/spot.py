"""The study of spot and deadlines, for the command line."""

from bursar.simulate.spot_study.cells import JobSize
from bursar.simulate.spot_study.study import HistoryStudy, run_history_study
from bursar.simulate.spot_study.text import spot_json, spot_text

__all__ = ["HistoryStudy", "JobSize", "run_history_study", "spot_json", "spot_text"]
