"""Builds what the Slurm commands and the Slurm engine need from configuration."""
