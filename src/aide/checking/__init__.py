"""Is this algorithm what it claims to be? Tests of the laws, and of kernels."""
