"""Facts about hardware that hold everywhere: GPU models and how each can be cut."""
