"""Studies from the command line: a user's file, a folder that can be continued, a report."""
