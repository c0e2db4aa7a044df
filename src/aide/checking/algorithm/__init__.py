"""Is a pair of operations what it claims to be?"""
