"""Imports sbatch scripts: options and prologue become a job file."""
