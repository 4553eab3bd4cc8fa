"""The commands of bursar: one module each, grouped as the help groups them."""
