"""Tells people what happened to their jobs and budgets: webhooks and e-mail, fed by the log."""
