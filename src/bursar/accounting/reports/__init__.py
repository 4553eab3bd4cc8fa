"""Reports over the ledger: statements, savings, FOCUS exports and total cost of ownership."""
