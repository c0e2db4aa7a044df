"""Does a kernel leave its density invariant, and is its reversal right?"""
