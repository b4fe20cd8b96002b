# Each target sets itself up in .venv first.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: setup demo test test-deep lint bench pair claims notebooks clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "spectheory needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: setup
	$(BIN)/spectheory demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q --numprocesses auto --dist worksteal

test-deep: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q --numprocesses auto --dist worksteal -m ''

bench: setup
	$(BIN)/python -m pytest benchmarks -q

pair: setup
	$(BIN)/spectheory train --out reference/pair --work build/pair

claims: setup
	$(BIN)/python docs/generate_claims.py

notebooks: setup
	$(BIN)/python docs/export_apps.py build/apps

clean:
	rm -rf .venv build dist
