"""Budgets: what was spent, what is left, and when it will run out."""
