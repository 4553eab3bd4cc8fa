"""Benchmarks: figures measured on this machine, printed next to references, never asserted."""
