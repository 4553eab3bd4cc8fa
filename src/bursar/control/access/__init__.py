"""Authentication and authorisation: tokens and what each may do."""
