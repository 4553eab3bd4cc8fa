"""The fleet as it is now: jobs, backlogs, usage, timers.

Changed by one event at a time, never rebuilt during a cycle.
"""
