"""Checkpoints for frameworks. Each module loads its framework only when it is used."""
