"""The driven Slurm engine.

Bursar decides, Slurm runs: submission, tracking, stops and foreign usage.
"""
