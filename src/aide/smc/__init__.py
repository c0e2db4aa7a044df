"""Sequential Monte Carlo from weighted moves: moves, resampling with twins, sweep, assembly."""
