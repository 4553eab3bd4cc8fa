"""Endpoints about the fleet: nodes, pools, tenants and governance findings."""
