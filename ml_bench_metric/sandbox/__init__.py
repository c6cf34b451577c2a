"""Where a candidate runs: one protocol, Docker behind it."""
