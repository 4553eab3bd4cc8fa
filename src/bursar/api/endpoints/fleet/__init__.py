"""Endpoints about the fleet: nodes, pools, tenants, governance findings and interruptions."""
