"""Planned starts of blocked jobs: which nodes they reserve, so that backfill goes around them."""
