"""Event and log streams: server-sent events and log files."""
