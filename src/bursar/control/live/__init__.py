"""State owned by the writer thread.

The live fleet state, ledger, budget holds and subscriptions.
"""
