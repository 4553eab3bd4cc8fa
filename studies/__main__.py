"""``python -m studies COMMAND ...``: the ``bursar`` command with the formats of papers."""

import runpy

if __name__ == "__main__":
    # Worker processes import the main module again, which registers the formats, but never a ``__main__``.
    runpy.run_module("studies.command", run_name="__main__", alter_sys=True)
