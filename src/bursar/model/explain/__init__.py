"""Explanations of one job as values: why it waits, its history, its spot costs."""
