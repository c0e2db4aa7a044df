"""Runners of algorithms: traced by JAX, in plain Python, or a fixed list of draws."""
