"""Runs Slurm commands and parses their output."""
