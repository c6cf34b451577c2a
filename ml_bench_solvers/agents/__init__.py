"""Agents: programs that work on a task in a sandbox, and leave a `run.sh` that is judged in another one."""
