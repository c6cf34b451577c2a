"""The command line `ml-bench`: one file per group of commands."""
