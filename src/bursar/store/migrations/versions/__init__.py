"""One module for each step, named after the version that it leads to."""
