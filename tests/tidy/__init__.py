"""The project's rules of style as code. ``tests/test_tidy.py`` runs them.

A rule is a function from one ``Source`` to its findings. To add one: write the function, add it to
``RULES`` in ``tests/test_tidy.py``, and give it a bad example there, so that it is known to fail.
"""
