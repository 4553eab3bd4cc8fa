"""The control plane is killed around commits and orders: nothing is lost or done twice."""
