"""Reading YAML strictly: every mistake is reported with its line, key and fix."""
