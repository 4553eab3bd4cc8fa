"""What people write down: files of ours, read strictly, with the place of every mistake."""

from bursar.config.fleet.fleet_file import FleetFile, parse_fleet, read_fleet

__all__ = ["FleetFile", "parse_fleet", "read_fleet"]
