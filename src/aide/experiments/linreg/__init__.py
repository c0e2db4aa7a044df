"""Linear regression (Figure 2): its algorithms, the truth about them, and the experiment."""
