"""The live shell, with a real store and an engine whose processes tests move."""
