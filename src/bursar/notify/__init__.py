"""Notifies people of job and budget events by webhook and e-mail."""
