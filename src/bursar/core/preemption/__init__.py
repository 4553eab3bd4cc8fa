"""Which running jobs may be stopped for a waiting one, and which few suffice. See README.md."""
