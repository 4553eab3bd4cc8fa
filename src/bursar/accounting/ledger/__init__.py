"""The double-entry ledger: events in, postings in whole micro-dollars out."""
