# make setup | sweep | test | lint | format | findings | mutants; PYTHON names the Python 3.11 or newer to begin with.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
BUDGET ?= 60s

.PHONY: setup sweep test lint format findings mutants clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

sweep: setup
	$(BIN)/xverify sweep --budget $(BUDGET)

test: setup
	$(BIN)/python -m pytest -n auto

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The published findings, made anew: the same versions give the same text but for the head and for crash messages.
findings: setup
	$(BIN)/xverify sweep --cases 30000 --seed 0 --json reports/runs/published.json
	$(BIN)/xverify report reports/runs/published.json --format markdown -o reports/findings.md

# Mutants of the in-house kernels and of the comparator, and what stops them: hours; SAMPLE=20 for as many.
SAMPLE ?= 0
SEEDS ?= 3
JOBS ?= 2
mutants: setup
	PYTHONPATH=tests $(BIN)/python -m mutation --sample $(SAMPLE) --seeds $(SEEDS) --jobs $(JOBS)

clean:
	rm -rf .venv reports/runs
