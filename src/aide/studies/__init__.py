"""Studies from the command line: a user's file, a folder that goes on, a report."""
