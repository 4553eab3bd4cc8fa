"""The driven Slurm engine: Bursar schedules, Slurm runs."""
