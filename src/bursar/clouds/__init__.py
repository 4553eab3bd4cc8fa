"""The clouds: what their machines cost. One folder each; they do not know each other."""
