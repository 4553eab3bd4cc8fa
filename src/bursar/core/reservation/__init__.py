"""Planned starts of blocked jobs, and the nodes reserved for them."""
