"""A real Slurm on one machine, for tests, examples and benchmarks: started and stopped in seconds."""

from tests.support.slurm_lab.lab import Lab
from tests.support.slurm_lab.lab_spec import LabNode, LabPartition, LabPlan

__all__ = ["Lab", "LabNode", "LabPartition", "LabPlan"]
