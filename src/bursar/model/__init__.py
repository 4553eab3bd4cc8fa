"""The vocabulary: frozen values, enums, units. Imports nothing else of ours."""
