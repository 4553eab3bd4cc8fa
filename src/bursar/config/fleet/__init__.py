"""The fleet file: its keys, reader, writer and JSON Schema."""
