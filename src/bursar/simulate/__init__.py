"""The simulated shell: the production ``decide`` on a virtual clock with simulated engines."""
