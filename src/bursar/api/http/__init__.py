"""HTTP plumbing: routes, requests, authentication, bodies and error responses."""
