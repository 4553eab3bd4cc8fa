"""Why a job waits, when it will start and what would help: answered on demand for one job."""
