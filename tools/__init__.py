"""Programs for those who work on Bursar. None of them is shipped."""
