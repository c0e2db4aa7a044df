"""Runs of a gold standard and a target, scored by both, and how they are kept."""
