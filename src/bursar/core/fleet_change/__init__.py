"""Differences between two fleet declarations, and their effects on jobs."""
