"""A real Slurm on one machine, for tests, examples and benchmarks: started and stopped in seconds."""

from bursar.testing.slurm_lab.lab import Lab
from bursar.testing.slurm_lab.plan import LabNode, LabPartition, LabPlan

__all__ = ["Lab", "LabNode", "LabPartition", "LabPlan"]
