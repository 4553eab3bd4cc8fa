"""The examples that need a control plane, run as in their README."""
