"""Fleets as values: clusters, pools, nodes, GPUs, MIG layouts and prices."""
