"""Figures, measured on this machine and printed next to their references. Never assertions."""
