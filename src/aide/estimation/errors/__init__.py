"""Errors of means, sds, quantiles, intervals and probabilities of the target, with limits."""
