"""Results and comparisons of runs as text, JSON and an HTML page."""
