"""The ledger of the event log, and the reports, budgets and estimates made from it. Pure."""
