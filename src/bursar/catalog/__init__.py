"""Facts about hardware: GPU models, their MIG geometries and cloud prices."""
