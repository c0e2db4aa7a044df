"""From algorithms to numbers: engine, draws, summary, storage, report, plot, yardsticks."""
