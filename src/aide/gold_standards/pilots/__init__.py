"""Runs that adapt as they go, to learn which numbers a frozen algorithm needs."""
