"""Why a job waits, when it will start and what would help, computed on request."""
