"""Programs of algorithms, the devices on which they run, chunks, and progress."""
