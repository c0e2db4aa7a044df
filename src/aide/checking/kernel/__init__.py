"""Tests whether a kernel leaves its density invariant, and whether its reversal is right."""
