"""The HTTP API: who asks, may he, and what is the answer. No rule of scheduling, quota or money is here."""
