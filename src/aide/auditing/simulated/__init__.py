"""An algorithm against exact posteriors, on data simulated from its model."""
