"""Endpoints for operators: drain and cordon, tokens and Prometheus metrics."""
