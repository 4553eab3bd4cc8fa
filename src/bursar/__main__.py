"""``python -m bursar`` is ``bursar``."""

import sys

from bursar.cli.main import main

sys.exit(main())
