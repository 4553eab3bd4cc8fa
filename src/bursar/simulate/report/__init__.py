"""Results of runs as text, JSON and one HTML page: including comparisons of several runs."""
