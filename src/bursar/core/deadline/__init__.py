"""Rules for jobs with a deadline: run on spot, run on demand, or wait. See README.md."""
