"""Spot pools in the cycle.

Which pools a job may use, moves under a deadline, and leaving nodes that are taken away.
"""
