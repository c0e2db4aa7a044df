"""Is this gold standard golden? Against itself, and on simulated data."""
