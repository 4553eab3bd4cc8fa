"""The published study of spot and deadlines (NSDI'24), compared with our rules."""

from studies.spot_deadlines.study import PARTS, SpotRequest, run_spot_study

__all__ = ["PARTS", "SpotRequest", "run_spot_study"]
