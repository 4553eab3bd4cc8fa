"""Clouds, against recorded answers."""
