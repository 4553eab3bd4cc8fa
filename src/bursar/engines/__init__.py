"""What runs attempts: one folder for each engine. Engines carry out and report; they decide nothing."""
