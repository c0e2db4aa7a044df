"""Who runs what, and where: programs, runners, chunks, progress."""
