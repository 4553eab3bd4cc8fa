"""A Slurm that decides for itself: configured from the tenant tree, read, explained and imported."""
