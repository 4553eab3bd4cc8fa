"""Tables, amounts, colours, progress, messages and Ctrl-C."""
