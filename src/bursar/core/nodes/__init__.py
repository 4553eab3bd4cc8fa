"""Pools, nodes and GPUs as they are now.

Indexes find a free one without a scan over all nodes.
"""
