"""The small process beside the control plane that starts keepers. Standard library only."""
