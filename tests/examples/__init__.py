"""The examples that need a control plane, run as their README says."""
