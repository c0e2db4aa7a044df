"""The hidden Markov model (Figure 4): its data and the experiment."""
