"""Slurm: real clusters that others run, driven, governed and explained."""
