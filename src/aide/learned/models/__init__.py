"""Laws that are learned: of a state and the record of a step, and of weights that survive."""
