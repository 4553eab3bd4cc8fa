"""The order of waiting jobs: priority and deadline, then fair share, then the queue's own order."""
