"""Inference algorithms, one family a file; the SMC families are assemblies of `aide.smc`."""
