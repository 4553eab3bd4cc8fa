"""The schema of the store, and the projection of events to rows."""
