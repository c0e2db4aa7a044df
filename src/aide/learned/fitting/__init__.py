"""From pilots to a fit: models for real and for discrete states, and what is kept of them."""
