"""The control plane is killed at every boundary: nothing is lost or done twice."""
