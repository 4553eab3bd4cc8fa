"""Rules of Kueue and Slurm.

Used to predict what those schedulers do, and to compare our order with theirs.
"""
