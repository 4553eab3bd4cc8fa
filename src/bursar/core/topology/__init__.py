"""Places gangs in the racks and blocks of a topology. See README.md."""
