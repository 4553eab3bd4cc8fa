"""What runs inside users' jobs. Standard library only: it ships in their images."""

from bursar.sdk.checkpointing import Run, checkpointing
from bursar.sdk.errors import CheckpointProblem
from bursar.sdk.signals import PREEMPTED_EXIT, Preempted

__all__ = ["PREEMPTED_EXIT", "CheckpointProblem", "Preempted", "Run", "checkpointing"]
