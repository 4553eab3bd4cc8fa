"""The local engine: attempts as real processes of this machine, which outlive the control plane."""
