"""The simulated shell: the same ``decide`` under a virtual clock, in a world made of a few numbers."""
