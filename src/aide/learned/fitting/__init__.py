"""From pilots to a fit: models for real and for discrete states, and the file of a fit."""
