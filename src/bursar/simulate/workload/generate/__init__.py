"""Workloads generated from a seed and published distributions; no download is needed."""
