"""Runs forwards with the record of every step, and the statistics of pilot runs."""
