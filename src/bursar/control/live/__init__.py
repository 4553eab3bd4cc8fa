"""State owned by the writer thread: fleet state, ledger, budget holds and subscriptions."""
