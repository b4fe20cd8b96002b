# Each target sets itself up in .venv first.
PYTHON ?= python3
BIN := .venv/bin
DECODER := .venv/.decoder
READY := .venv/.ready
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt

.PHONY: setup demo quick test test-deep suite suite-deep lint style types bench pair claims docs notebooks clean

setup: $(READY)

define ENVIRONMENT
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "spectheory needs Python 3.11 or newer")'
@echo "set-up: installs spectheory and $(1) into .venv; about $(2), most of it the download of torch"
$(PYTHON) -m venv .venv
$(INSTALL) --upgrade pip
$(INSTALL) --editable '.[$(3)]'
endef

$(DECODER): pyproject.toml constraints.txt
	$(call ENVIRONMENT,the decoder,a minute,reference)
	touch $@

$(READY): pyproject.toml constraints.txt
	$(call ENVIRONMENT,the tools of its tests,a minute,dev)
	touch $(DECODER) $@

# The demo needs the decoder alone. Bytecode is kept even where the environment turns it off, here and in tests, so that
# the next process loads the packages fast.
demo: $(DECODER)
	PYTHONDONTWRITEBYTECODE= $(BIN)/spectheory demo

lint: style types
	$(BIN)/python benchmarks/size.py

style: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/pyrefly check

PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q --numprocesses auto --dist worksteal

# While you work: no torch, no pages, no child processes; a minute on idle cores.
QUICK := $(addprefix tests/,core engines goose hardware otlp planning report search simulate verify yields)
QUICK += $(addprefix --ignore=tests/,core/test_plugins.py hardware/test_model_sizes.py simulate/test_collect.py)
QUICK += $(addprefix --deselect=tests/,report/test_report.py::test_imports_stay_light)

quick: setup
	$(PYTEST) $(QUICK)

# What CI runs. The tests start with imports, so the types are checked beside them.
test: style
	$(MAKE) --jobs 2 types suite

# Also the long statistical runs, the full enumerations, and every example as its page has it.
test-deep: style
	$(MAKE) --jobs 2 types suite-deep

suite: setup
	$(PYTEST)

suite-deep: setup
	$(PYTEST) -m ''

bench: setup
	$(BIN)/python -m pytest benchmarks -q

TRAIN := $(BIN)/python -m reference.train
HEAD := --texts build/pair/greedy --texts build/pair/sampled --rows 16

pair: setup
	$(TRAIN) target --out reference/pair --work build/pair
	$(TRAIN) texts --rows 2560 --temperature 0 --out build/pair/greedy
	$(TRAIN) texts --rows 2560 --seed 1 --out build/pair/sampled
	$(TRAIN) head $(HEAD) --kind eagle1 --intermediate 1536 --loss eagle --steps 1000 --out build/pair/start
	$(TRAIN) head $(HEAD) --start build/pair/start --loss eagle3 --set passes=3 --steps 1600 --out build/pair/head
	cd build/pair/head && cp config.json model.safetensors provenance.json training.json $(CURDIR)/reference/pair/head

claims: setup
	rm -f docs/claims.md
	$(BIN)/spectheory check --report docs/claims.md

TABLES := build/tables
ROWS := $(wildcard $(addprefix benchmarks/validation/,published.csv more.csv later.csv ours.csv))

$(TABLES)/validation.md: $(wildcard benchmarks/validation/* spectheory/hardware/* spectheory/data/*) | setup
	mkdir -p $(TABLES)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.validation $(ROWS) --leave-one-source-out --out $@

# The tests build the site too, in a folder of their own, without claims, certificates and errors of the time model.
docs: setup claims $(TABLES)/validation.md
	$(BIN)/python -m benchmarks.serving_validation --out $(TABLES)/serving.md
	$(BIN)/python -m sphinx -W --keep-going -t certified -d build/doctrees docs build/site

notebooks: setup
	$(BIN)/python docs/export_apps.py build/apps

clean:
	rm -rf .venv build dist
