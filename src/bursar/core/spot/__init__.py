"""Spot pools in the cycle: the choice of pools, moves under a deadline, and evacuation."""
