"""The commands of bursar, one module each, grouped by topic."""
