"""What the terminal shows: tables, amounts, colours, progress, messages and Ctrl-C."""
