"""Two-sided statements about the divergence: AIDE's upper bound, a classifier's lower bound."""
