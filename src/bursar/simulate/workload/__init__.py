"""What a simulation runs: traces, recorded history and generated workloads as submissions."""
