"""Learned meta-inference for Markov chains."""
