"""What machines cost in the clouds: a table of our own, how to ask it, and how it reaches pools."""
