"""Jobs as values: what a user asks for, its attempts, and the job kind the scheduler judges."""
