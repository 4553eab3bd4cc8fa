"""The HTTP API: authentication, authorisation and endpoints; no rule of scheduling, quota or money."""
