"""Read-only queries: health, metric values, past runs and the full ledger."""
