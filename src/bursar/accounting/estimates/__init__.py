"""What a job will cost and how long it will run: from the history of similar jobs."""
