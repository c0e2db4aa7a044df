"""Runs that adapt as they go, to find the numbers of the algorithm that is then fixed."""
