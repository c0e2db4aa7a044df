"""Adding runs until they suffice."""
