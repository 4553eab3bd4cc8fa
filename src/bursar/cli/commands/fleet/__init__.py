"""Commands about the fleet."""
