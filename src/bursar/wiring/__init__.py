"""Builds the objects from configuration; the only package that may import everything."""
