"""Requests to the writer: each turns what a caller or an engine says into events."""
