"""Prices of cloud machines: packaged tables, lookup and price changes of pools."""
