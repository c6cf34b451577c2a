"""The task `ml_bench` of lm-evaluation-harness."""
