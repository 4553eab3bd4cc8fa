"""Where a job fits.

The pools that can run it, the search over their nodes, gangs and node scores.
"""
