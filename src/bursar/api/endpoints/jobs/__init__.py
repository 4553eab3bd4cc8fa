"""Endpoints about jobs: submit, list, queue, logs, events, bundles and explanations."""
