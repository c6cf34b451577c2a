# `make demo` and `make test` do all the set-up on a fresh machine; run again, they do only what is needed.

# A Python from 3.10 to 3.13 that can make virtual environments; `make demo PYTHON=/usr/bin/python3.12` takes another.
PYTHON ?= $(shell for python in python3 python3.12 python3.11 python3.13 python3.10; do \
	$$python -c 'import ensurepip, sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null \
	&& echo $$python && break; done)
BIN := .venv/bin
INSTALLED := .venv/installed

export HF_HUB_OFFLINE := 1
export HF_EVALUATE_OFFLINE := 1

.PHONY: help demo test test-long venv engine browser podman images lint clean
.DEFAULT_GOAL := help

help: ## show this
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: images ## evaluate the sample benchmark in containers, and show Pass@k
	$(BIN)/ml-bench evaluate ml_bench_sample/predictions.jsonl --tasks sample --split L --limit-time 5 --limit-memory 512m --out runs/demo --restart

test: lint images browser ## all checks and tests
	bash scripts/run-tests.sh $(BIN)/pytest $(BIN)/python
	bash scripts/test-harnesses.sh $(BIN)/python

test-long: images podman ## hostile agents, and Podman under Docker's contract: minutes more
	$(BIN)/pytest -m docker -p no:cacheprovider tests/hostile_agents tests/test_podman.py

lint: venv ## the checks that need no engine: ruff, mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

venv: $(INSTALLED) ## the virtual environment .venv with this package and the tools

$(INSTALLED): pyproject.toml setup.py
	@test -n "$(PYTHON)" || { echo "no Python 3.10 to 3.13 that can make virtual environments was found." \
		"Debian, Ubuntu: apt-get install python3-venv; else name one: make $(MAKECMDGOALS) PYTHON=/path/to/python" >&2; exit 1; }
	@echo "making .venv with $(PYTHON), which takes a minute or two"
	@$(BIN)/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear .venv
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[dev]'
	@touch $@

engine: ## a running Docker engine: uses, or installs and starts one
	@bash scripts/ensure-engine.sh

browser: ## Chromium, for the tests of the Space's page
	@bash scripts/ensure-program.sh "$${ML_BENCH_CHROMIUM:-chromium}" "the tests of the Space's page need" chromium

podman: ## Podman, for the tests that hold it to what Docker does; without it they are skipped
	@bash scripts/ensure-program.sh podman "the tests of Podman are skipped without" podman runc || test "$$(id -u)" -ne 0

images: venv engine ## the image of the sample benchmark
	$(BIN)/ml-bench images build sample

clean: ## remove what these commands made in this folder
	rm -rf .venv .venv-versions .venv-harnesses dataset_infos.json build dist runs *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
