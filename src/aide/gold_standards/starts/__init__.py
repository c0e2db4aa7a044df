"""Modes, and starts with heavy tails about modes."""
