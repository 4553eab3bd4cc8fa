"""Engines run attempts: one folder for each. They carry out orders and report; they decide nothing."""
