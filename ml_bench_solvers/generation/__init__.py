"""Asking models: prompts in, answers on disk, every answer paid once.

`work` says what is wanted, `run` asks for what is not known yet: `asking` and `client` speak to servers, `local` to
models of this machine; `replies` reads what comes, `recording` and `folder` store it, `totals` adds up.
"""
