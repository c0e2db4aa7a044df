"""The one reverse engine: SMC backwards in time, and the other particles of an SMC run."""
