"""Strict reading of YAML, and the tables of keys."""
