"""Mutation testing: changes the code in small ways and sees whether a test notices.

``source.py`` is a file as bytes and syntax tree, ``operators.py`` lists its mutants, ``sample.py`` picks some
of them by a seed. ``probe.py`` marks them in the code, so that one run of the tests shows which test executes
which mutant. ``judge.py`` runs those tests against each mutant, in copies of the project; inside pytest works
``pytest_probe.py``. ``__main__.py`` is the command line. How to use it: ``docs/testing.md``.
"""
