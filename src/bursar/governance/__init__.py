"""Pure. Governance rules on jobs, idle nodes and oversized time limits."""
