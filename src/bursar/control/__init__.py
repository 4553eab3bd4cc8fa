"""The live shell: real time, a durable log, real engines. All decisions are made in ``core``."""
