"""Runs forwards with the record of every step, and what pilot runs leave behind."""
