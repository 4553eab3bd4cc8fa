"""Prices of the catalog."""
