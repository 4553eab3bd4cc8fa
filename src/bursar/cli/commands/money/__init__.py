"""Commands about quota, budgets and cost."""
