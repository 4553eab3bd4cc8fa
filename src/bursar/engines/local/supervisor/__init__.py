"""The supervisor process of the local engine. Standard library only."""
