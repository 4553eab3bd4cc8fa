"""The demonstration: a small scenario with a timeline in plain text."""
