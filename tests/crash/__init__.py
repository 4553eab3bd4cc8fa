"""The control plane killed at every boundary: nothing is lost, doubled or given twice."""
