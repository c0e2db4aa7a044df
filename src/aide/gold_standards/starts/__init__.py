"""Modes, and starts with heavy tails about them."""
