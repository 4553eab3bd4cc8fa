"""The endpoints, called after authentication and authorisation."""
