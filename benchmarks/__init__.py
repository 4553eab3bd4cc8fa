"""Figures, measured on this machine and printed beside their references. Never assertions."""
