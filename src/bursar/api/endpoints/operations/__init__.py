"""Endpoints for operators: health, drain, interrupt, tokens and Prometheus metrics."""
