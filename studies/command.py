"""The ``bursar`` command with the formats of papers."""

import sys

import studies.formats  # noqa: F401  importing it registers the formats
from bursar.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
