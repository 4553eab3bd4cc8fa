"""Pure. ``decide`` and the rules under it; no clock, no chance, no I/O."""
