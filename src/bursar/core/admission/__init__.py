"""Checks whether a job or a fleet is valid before it enters the state."""
