"""Pure. Events become usage, usage a ledger, the ledger statements, savings, budgets and estimates."""
