"""Threads that talk to engines: they carry out committed orders and receive reports."""
