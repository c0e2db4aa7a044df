"""Storage of runs: as xarray data, in files that are complete or absent."""
