"""The job file: its keys, reader, writer and JSON Schema."""
