"""Governed Slurm clusters: Slurm schedules; Bursar configures, explains and imports."""
