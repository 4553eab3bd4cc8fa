"""Compares the cost of deadline rules on recorded spot capacity.

A *rule* is a policy of ``core/deadline``, a *cell* is one job size on one set of histories, and the
*optimum* is the least cost with knowledge of the future.
"""
