"""Bursar decides who runs where, when, and at whose cost, for teams that share GPUs."""

__version__ = "0.1.0"
