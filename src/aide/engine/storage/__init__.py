"""Runs on disk: as xarray data, in files that are whole or absent, and what a call may reuse."""
