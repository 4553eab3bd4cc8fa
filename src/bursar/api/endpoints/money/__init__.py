"""Endpoints about money: costs, budgets, statements, estimates and exports."""
