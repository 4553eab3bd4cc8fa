"""Read-only questions to the control plane.

Health, metric values, past runs and the full ledger.
"""
