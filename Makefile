# Needs make and Python 3.11 or newer. Everything else is in .venv, renewed when pyproject.toml changes. Running needs
# few packages, testing many, so each has a stamp of its own. tools/ installs things, one script each.

BIN       := .venv/bin
READY_RUN := .venv/.ready-run
READY     := .venv/.ready

# make PYTHON=/path/to/python3.12 test: the interpreter .venv is created with
PYTHON ?=
# make test TESTS=tests/core: which tests
TESTS ?=
# make run PORT=9000: another port
PORT ?=
# make slurm-lab DO=stop: install, start, stop or status
DO ?= start
# make example NAME=three-projects: a folder of examples/
NAME ?=
# make compiled COMPILED=build/other OPTIMISE=0: where, and how long the C compiler may take
COMPILED := build/compiled
OPTIMISE := 2

# Files outside the project. Tests whose file is absent are skipped with a message.
export BURSAR_ORACLE ?= $(CURDIR)/../shared/oracle/cases.yaml
export BURSAR_TRACES ?= $(CURDIR)/../shared/traces
# The tests of the pure packages: no socket, no sleep, seconds in all.
PURE_TESTS := $(wildcard tests/model tests/core tests/accounting tests/catalog)
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal

# What `make test-full` needs besides pip packages; tools/install-NAME installs each.
PARTS := postgres torch frameworks slurm focus compiler
REAL_PARTS := $(PARTS:%=real-%)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run example test test-full check bench mutants compiled format unused clean slurm-lab test-inputs \
        check-format check-lint check-types check-tidy check-pure real-parts $(REAL_PARTS)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

run: $(READY_RUN) ## start everything here: server, local engine, three teams, a handful of real jobs
	@echo "make: state is kept in .bursar; in another terminal first run:"
	@echo "      export BURSAR_STATE=$(CURDIR)/.bursar PATH=$(CURDIR)/$(BIN):\$$PATH"
	@$(BIN)/bursar up --state .bursar --fleet examples/three-projects/fleet.yaml \
	  --submit examples/three-projects/jobs $(if $(PORT),--port $(PORT))

example: ## run one example, NAME=its folder; without NAME, list them
	@tools/run-example $(NAME)

test: $(READY) test-inputs ## run the quick tests, which need pip packages only; TESTS=PATH runs those alone
	@$(PYTEST) -m "not real and not thorough" $(TESTS)
	@echo "left out: thorough tests (long runs, many seeds, large traces, more examples of each property) and tests against" \
	  "a real PostgreSQL, PyTorch, Lightning, Hugging Face, TensorFlow, Slurm, FOCUS validator, C compiler and fresh clone;" \
	  "'make test-full' installs what they need and runs them"

test-full: export HYPOTHESIS_PROFILE ?= full
test-full: $(READY) real-parts test-inputs ## run every test, thorough ones and real parts included
	@$(PYTEST) $(TESTS)

check: check-format check-lint check-types check-tidy check-pure ## format, lint, types, tidy, pure-layer tests
	@echo "check: all good"

bench: $(READY) compiled ## measure speed and memory; prints one table
	@$(BIN)/python -m benchmarks

mutants: $(READY) ## change the pure packages in N=100 small ways, chosen by SEED=1, and show what no test notices
	@$(BIN)/python -m tools.mutants --mutants $(or $(N),100) --seed $(or $(SEED),1)

compiled: $(READY) ## build the package with its hot parts as C, in build/compiled; wants a C compiler
	@tools/build-compiled $(COMPILED) $(OPTIMISE)

format: $(READY) ## rewrite the code in the project's format, fix what lint can fix
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

unused: $(READY) ## list what only tests use, or nothing; exit code 3 when there is any
	@$(BIN)/vulture

clean: ## remove .venv and every cache
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	@find src tests benchmarks studies -name __pycache__ -type d -prune -exec rm -rf {} +

slurm-lab: $(READY_RUN) $(if $(filter install start,$(DO)),real-slurm) ## a real Slurm with pretended GPUs here; DO=stop ends it, DO=status shows it
	@$(if $(filter install,$(DO)),true,$(BIN)/python -m tests.support.slurm_lab $(DO))

check-format: $(READY)
	@echo "check: format"
	@$(BIN)/ruff format --check . || { echo "check: 'make format' puts the format right" >&2; exit 1; }

check-lint: $(READY)
	@echo "check: lint"
	@$(BIN)/ruff check --quiet .

check-types: $(READY)
	@echo "check: types"
	@$(BIN)/mypy --no-error-summary

check-tidy: $(READY)
	@echo "check: tidy and docs"
	@$(BIN)/python -m pytest tests/test_tidy.py tests/test_docs.py

check-pure: $(READY)
	@echo "check: pure layer"
	@$(if $(PURE_TESTS),$(PYTEST) -m "not thorough" $(PURE_TESTS),echo "no tests of the pure layer found" >&2; exit 1)

test-inputs:
	@tools/show-test-inputs

real-parts: $(REAL_PARTS)
real-torch real-frameworks real-focus real-compiler: $(READY)

$(REAL_PARTS): real-%:
	@tools/install-$*

$(READY): $(READY_RUN)
	@tools/make-venv dev

$(READY_RUN): pyproject.toml
	@tools/make-venv run
