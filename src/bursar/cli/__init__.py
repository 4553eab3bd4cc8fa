"""The ``bursar`` command line."""
