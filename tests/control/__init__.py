"""The live shell, with a real store and an engine that tests control."""
