# Two commands do everything: `make demo` and `make test`. Each sets up what it needs on first use.
#
#   PYTHON         the interpreter that makes .venv (3.11 or newer)
#   TORCH_VERSION  the torch release to install
#   TORCH_INDEX    a package index to take torch from: a CPU-only or a CUDA build (see README, "Set-up")
#   SHARED         a folder of larger test data for `make acceptance`

PYTHON ?= python3
TESTED_TORCH := $(shell sed -n 's/^torch==//p' constraints.txt)
TORCH_VERSION ?= $(TESTED_TORCH)
TORCH_INDEX ?=
SHARED ?= ../shared

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
RUN_STAMP := $(VENV)/.stamp-run
DEV_STAMP := $(VENV)/.stamp-dev
SOURCES := sgrt frontend kernels grammars tests examples benchmarks
# One thread: tests are deterministic and two of them do not fight over the cores.
TEST_ENV := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test check lint slow acceptance wheel clean help FORCE

help:
	@echo "make demo        set up, fetch the default model, run the main example"
	@echo "make test        set up, run the tests"
	@echo "make check       ruff, format, mypy, pyright, import contracts, tests"
	@echo "make slow        the long suites (real clients, soak, every Triton target)"
	@echo "make acceptance  tests and benchmarks on the data in SHARED"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("sgrt needs Python 3.11 or newer, found " + sys.version) if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv $(VENV)

# The constraints with the torch that was asked for: another torch brings a triton of its own.
PINS := $(VENV)/constraints.txt
OTHER_TRITON := $(if $(filter $(TESTED_TORCH),$(TORCH_VERSION)),,-e '/^triton==/d')

# Rewritten only when something else is asked for, so that asking for another torch installs it.
$(PINS): constraints.txt FORCE | $(BIN)/python
	@{ echo "# index: $(TORCH_INDEX)"; sed -e 's/^torch==.*/torch==$(TORCH_VERSION)/' $(OTHER_TRITON) constraints.txt; } > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

$(RUN_STAMP): pyproject.toml $(PINS)
	@echo "Setting up $(VENV): torch $(TORCH_VERSION) and what sgrt needs. The first time takes minutes."
	$(PIP) install --quiet $(if $(filter $(PINS),$?),--force-reinstall) "torch==$(TORCH_VERSION)" $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	$(PIP) install --quiet --constraint $(PINS) --editable .
	touch $@

$(DEV_STAMP): $(RUN_STAMP)
	$(PIP) install --quiet --constraint $(PINS) --editable ".[dev]"
	touch $@

demo: $(RUN_STAMP)
	$(BIN)/sgrt pull smollm2
	$(BIN)/python examples/triage.py

test: $(DEV_STAMP)
	$(BIN)/sgrt pull smollm2
	$(TEST_ENV) $(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(DEV_STAMP)
	$(BIN)/ruff check --quiet $(SOURCES)
	$(BIN)/ruff format --quiet --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/pyright --warnings
	$(BIN)/lint-imports

check: lint test

# GPU machines lag behind: the kernels are held on an older Triton too, in a folder of its own.
OLDER_TRITON := $(VENV)/triton-3.6

$(OLDER_TRITON): | $(DEV_STAMP)
	$(PIP) install --quiet --no-deps --target $@ triton==3.6.0

slow: $(DEV_STAMP) $(OLDER_TRITON)
	$(BIN)/sgrt pull smollm2
	$(TEST_ENV) SGRT_OLDER_TRITON=$(abspath $(OLDER_TRITON)) $(BIN)/python -m pytest -m slow --timeout 3600 $(PYTEST_ARGS)

acceptance: $(DEV_STAMP)
	$(BIN)/sgrt grammar check $(SHARED)/cases/schema_cases.json
	$(BIN)/sgrt grammar check $(SHARED)/cases/regex_cases.json
	$(BIN)/sgrt grammar check $(SHARED)/cases/grammar_cases.json
	$(BIN)/python benchmarks/grammar_correctness.py suite --data $(SHARED)/bench/grammar/data
	$(BIN)/python benchmarks/grammar_correctness.py maskbench --data $(SHARED)/bench/grammar/data

wheel: | $(BIN)/python
	$(PIP) wheel --quiet --no-deps --wheel-dir dist .

clean:
	rm -rf dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis
