"""The ``bursar`` command: reads arguments, prints lines. No rule of scheduling, quota or money here."""
