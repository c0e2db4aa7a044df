"""The two operations, log-space arithmetic, keys and checks, on which all other folders stand."""
