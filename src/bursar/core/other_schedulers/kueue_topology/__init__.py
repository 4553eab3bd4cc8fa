"""Kueue's topology-aware scheduling: leaders, affinity, even placement, replaced nodes."""
