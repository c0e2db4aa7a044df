"""Who runs an algorithm: traced by JAX, plain Python, or a fixed list of draws."""
