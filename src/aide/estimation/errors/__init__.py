"""Errors of what people report: means, sds, quantiles, intervals, probabilities, with limits."""
