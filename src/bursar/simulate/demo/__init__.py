"""The demonstration day: a small scenario told as a timeline."""
