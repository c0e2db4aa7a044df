"""How far a Markov chain is from its posterior, step by step."""
