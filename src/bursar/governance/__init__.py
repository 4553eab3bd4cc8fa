"""Pure. The house rules: what a job may not do, what stands idle, and what could be asked for better."""
