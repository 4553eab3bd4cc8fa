"""Who is next: priority and deadline first, then fair share, then the order inside a queue."""
