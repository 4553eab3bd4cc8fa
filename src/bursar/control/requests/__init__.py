"""Requests to the writer: each becomes events, tokens or audit entries of one transaction."""
