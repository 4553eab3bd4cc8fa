"""Tenants as values: the tenant tree, policies, identities and governance rules."""
