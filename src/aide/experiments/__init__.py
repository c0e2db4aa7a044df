"""The paper's five experiments: `table` and `runner` are shared, then one file per experiment."""
