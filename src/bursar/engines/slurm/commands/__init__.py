"""Slurm commands and their output: run as argv, parsed into values."""
