"""`lm_eval --include_path "$(python -m ml_bench_solvers.lm_eval_tasks)" --tasks ml_bench …`."""

from ml_bench_solvers.lm_eval_tasks import path

print(path())
