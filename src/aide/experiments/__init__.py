"""The paper's experiments: shared parts, and a file for each; `command` lists them."""
