"""The tables of the store: their schema and how events become rows."""
