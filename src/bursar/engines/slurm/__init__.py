"""Slurm clusters: driven or governed by Bursar."""
