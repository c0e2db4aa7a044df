"""Models that are learned: of states and records of steps, and of weights along a path."""
