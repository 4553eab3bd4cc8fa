"""The live shell: real time, a durable log, real engines. It decides nothing; ``core`` does."""
