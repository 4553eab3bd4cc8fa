"""The files people write, read strictly, with the location of every error."""

from bursar.config.fleet.fleet_file import FleetFile, parse_fleet, read_fleet

__all__ = ["FleetFile", "parse_fleet", "read_fleet"]
