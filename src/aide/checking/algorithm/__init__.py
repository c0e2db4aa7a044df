"""Tests of the laws that `simulate` and `regenerate` of one algorithm must obey."""
