"""Benchmarks: a folder per section, `peers` for what we are compared with, `run.py` to run them."""
