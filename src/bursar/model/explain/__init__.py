"""Answers about one job as values.

Why it waits, what happened to it, and what spot means for it.
"""
