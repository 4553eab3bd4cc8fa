"""What a change of the fleet file means: the difference between two fleets and whom it affects."""
