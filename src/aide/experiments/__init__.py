"""The paper's experiments: what they share, and a file or folder of each; `command` lists them."""
