"""Prices and spot notices of clouds. One package each; none imports another."""
