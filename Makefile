# Needs make and Python 3.11 or newer. Everything else is kept in .venv, which the first target that
# needs it creates, and which is renewed only when pyproject.toml changes. To run takes few packages and
# to test takes many, so each has a stamp of its own.

VENV      := .venv
BIN       := $(VENV)/bin
READY_RUN := $(VENV)/.ready-run
READY     := $(VENV)/.ready
LOG       := $(VENV)/install.log

# Say `make PYTHON=/path/to/python3.12 test` to choose an interpreter yourself.
PYTHON ?=
CANDIDATES := $(if $(PYTHON),$(PYTHON),python3.12 python3.11 python3.13 python3.14 python3 python)

# The tests of the pure layer: no socket, no sleep, seconds in all.
PURE_TESTS := $(wildcard tests/model tests/core tests/accounting tests/catalog)

# Files that live beside the project, not in it. Tests that need an absent one are skipped and say so.
export BURSAR_ORACLE ?= $(CURDIR)/../shared/oracle/cases.yaml
export BURSAR_TRACES ?= $(CURDIR)/../shared/traces

PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal

.DEFAULT_GOAL := help
# The steps share the processors already; running them side by side would only mix their output.
.NOTPARALLEL:
.PHONY: help run test test-full check bench compiled format clean slurm-lab \
        check-format check-lint check-types check-tidy check-pure beside \
        real-parts real-postgres real-torch real-frameworks real-slurm real-focus real-compiler

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

run: $(READY_RUN) ## start everything here: server, local engine, three teams, a handful of real jobs
	@echo "make: state is kept in .bursar; in another terminal first say:"
	@echo "      export BURSAR_STATE=$(CURDIR)/.bursar PATH=$(CURDIR)/$(BIN):\$$PATH"
	@$(BIN)/bursar up --state .bursar --fleet examples/three-projects/fleet.yaml \
	  --submit examples/three-projects/jobs

test: $(READY) beside ## run the tests that need pip packages only
	@$(PYTEST) -m "not real"
	@echo "left out: tests against a real PostgreSQL, PyTorch, Lightning, Hugging Face, TensorFlow, Slurm and FOCUS validator; 'make test-full' installs and runs them"

test-full: $(READY) real-parts beside ## run every test, real parts included
	@$(PYTEST)

check: check-format check-lint check-types check-tidy check-pure ## format, lint, types, tidy, pure-layer tests
	@echo "check: all good"

bench: $(READY) compiled ## measure speed and memory; prints one table
	@$(BIN)/python -m benchmarks

# Built from a copy: mypyc leaves its modules beside the sources, where every other target would load them.
# The C is written by a program, so nobody reads warnings about it; looking at its indentation alone took a minute.
# OPTIMISE=0 builds in half the time what runs at less speed: enough for a test of what it decides.
COMPILED := build/compiled
OPTIMISE := 2
HAS_COMPILER = command -v cc >/dev/null && \
  $(BIN)/python -c "import pathlib, sys, sysconfig; sys.exit(not pathlib.Path(sysconfig.get_path('include'), 'Python.h').exists())"

compiled: $(READY) ## build the package with its hot parts as C, in build/compiled; wants a C compiler
	@if [ -e $(COMPILED)/.ready ] && [ -z "$$(find src pyproject.toml -newer $(COMPILED)/.ready -not -name __pycache__ -not -name '*.pyc' | head -n 1)" ]; then \
	  echo "compiled: $(COMPILED) is up to date"; \
	elif $(HAS_COMPILER); then \
	  echo "compiled: building $(COMPILED) with mypyc (one to two minutes)"; \
	  rm -rf $(COMPILED) $(COMPILED).source && mkdir -p $(COMPILED).source && \
	    cp -R README.md LICENSE src $(COMPILED).source && \
	    sed 's/opt_level = "2"/opt_level = "$(OPTIMISE)"/' pyproject.toml >$(COMPILED).source/pyproject.toml && \
	    CFLAGS="$$CFLAGS -w" HATCH_BUILD_HOOK_ENABLE_MYPYC=1 $(BIN)/python -m pip install --disable-pip-version-check --no-input \
	      --no-deps --target $(COMPILED) $(COMPILED).source >$(COMPILED).log 2>&1 || \
	    { echo "make: mypyc could not build it; the end of $(COMPILED).log:" >&2; tail -n 15 $(COMPILED).log >&2; exit 1; }; \
	  rm -rf $(COMPILED).source; touch $(COMPILED)/.ready; \
	else \
	  echo "compiled: not built: it wants a C compiler and Python's headers (Debian and Ubuntu: apt install gcc libc6-dev python3-dev)"; \
	fi

format: $(READY) ## rewrite the code in the project's format, fix what lint can fix
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

clean: ## remove .venv and every cache
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	@find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

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
	@$(if $(PURE_TESTS),$(PYTEST) $(PURE_TESTS),echo "no tests of the pure layer found" >&2; exit 1)

beside:
	@test -e "$(BURSAR_ORACLE)" && state="found" || state="absent, tests that need it are skipped"; \
	  echo "oracle cases: $(BURSAR_ORACLE) ($$state; set BURSAR_ORACLE to look elsewhere)"
	@test -e "$(BURSAR_TRACES)" && state="found" || state="absent, tests that need them are skipped"; \
	  echo "traces: $(BURSAR_TRACES) ($$state; set BURSAR_TRACES to look elsewhere)"

# Each real part gets a target of its own that installs it, and is named here.
real-parts: real-postgres real-torch real-frameworks real-slurm real-focus real-compiler

real-compiler: $(READY)
	@if $(HAS_COMPILER); then \
	  echo "C compiler: found"; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "C compiler: installing it with apt-get"; \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc libc6-dev python3-dev; } >/dev/null || \
	    { echo "make: apt-get could not install gcc; what it said is above" >&2; exit 1; }; \
	fi

real-postgres:
	@if ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null; then \
	  echo "PostgreSQL: found; the tests start servers of their own"; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "PostgreSQL: installing it with apt-get"; \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql; } >/dev/null || \
	    { echo "make: apt-get could not install postgresql; what it said is above" >&2; exit 1; }; \
	else \
	  echo "PostgreSQL: absent, its tests are skipped. Install the server package of your system" >&2; \
	  echo "            (Debian and Ubuntu: apt install postgresql) and run make again." >&2; \
	fi

# Not compiled when installed: of thousands of modules the tests load a few, and those are compiled then.
TORCH := torch==2.13.0

real-torch: $(READY)
	@if $(BIN)/python -c "import torch" >/dev/null 2>&1; then \
	  echo "torch: found"; \
	else \
	  echo "torch: installing $(TORCH) with pip"; \
	  $(BIN)/python -m pip install --disable-pip-version-check --no-input --no-compile -q '$(TORCH)' >>$(LOG) 2>&1 || \
	    { echo "make: pip could not install $(TORCH); the end of $(LOG):" >&2; tail -n 5 $(LOG) >&2; exit 1; }; \
	fi

# TensorFlow is not made for every Python and machine, so its tests may be skipped; the others run everywhere.
FRAMEWORKS := lightning==2.6.6 transformers[torch]==5.22.2
TENSORFLOW := tensorflow-cpu==2.21.0
# $(1) are modules; true when all of them are installed. To import them would take ten seconds.
HAS_MODULES = $(BIN)/python -c "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))" $(1)

real-frameworks: real-torch
	@if $(call HAS_MODULES,lightning transformers accelerate); then \
	  echo "Lightning and Hugging Face: found"; \
	else \
	  echo "Lightning and Hugging Face: installing them with pip (about half a minute)"; \
	  $(BIN)/python -m pip install --disable-pip-version-check --no-input --no-compile -q '$(TORCH)' $(FRAMEWORKS:%='%') >>$(LOG) 2>&1 || \
	    { echo "make: pip could not install $(FRAMEWORKS); the end of $(LOG):" >&2; tail -n 5 $(LOG) >&2; exit 1; }; \
	fi
	@if $(call HAS_MODULES,tensorflow); then \
	  echo "TensorFlow: found"; \
	else \
	  echo "TensorFlow: installing it with pip (about half a minute)"; \
	  $(BIN)/python -m pip install --disable-pip-version-check --no-input --no-compile -q '$(TENSORFLOW)' >>$(LOG) 2>&1 || \
	    echo "TensorFlow: pip could not install $(TENSORFLOW), its tests are skipped; $(LOG) says why" >&2; \
	fi

SLURM := slurm-wlm slurmdbd slurmrestd munge mariadb-server libnss-wrapper

# Debian starts what it installs. Ours start by themselves, in folders of their own.
real-slurm:
	@if (for one in slurmctld slurmd slurmdbd slurmrestd munged mariadbd; do command -v $$one || exit 1; done) >/dev/null; then \
	  echo "Slurm: found; the tests start clusters of their own"; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Slurm: installing it with apt-get (about half a minute)"; \
	  policy=/usr/sbin/policy-rc.d; \
	  if [ ! -e $$policy ]; then \
	    trap 'rm -f /usr/sbin/policy-rc.d' EXIT; \
	    printf '#!/bin/sh\nexit 101\n' >$$policy && chmod 755 $$policy; \
	  fi; \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	    apt-get install -y -qq --no-install-recommends $(SLURM); } >/dev/null || \
	    { echo "make: apt-get could not install $(SLURM); what it said is above" >&2; exit 1; }; \
	else \
	  echo "Slurm: absent, its tests are skipped. As root on Debian or Ubuntu:" >&2; \
	  echo "       apt install $(SLURM)" >&2; \
	fi

# The FinOps Foundation's validator wants Python 3.12 and older packages than ours, so it has a place of its own.
FOCUS := focus-validator==2.2.1 pyarrow<22
FOCUS_BIN := $(VENV)/focus/bin
FOCUS_PYTHONS := python3.12 python3.13 python3.14 $(wildcard $(HOME)/.pyenv/versions/3.1[2-9]*/bin/python)

real-focus: $(READY)
	@if $(FOCUS_BIN)/python -c "import focus_validator" >/dev/null 2>&1; then \
	  echo "FOCUS validator: found"; exit 0; \
	fi; \
	for candidate in $(FOCUS_PYTHONS); do \
	  "$$candidate" -c "import sys; sys.exit(sys.version_info < (3, 12))" >/dev/null 2>&1 || continue; \
	  echo "FOCUS validator: installing it with pip into $(VENV)/focus"; \
	  { "$$candidate" -m venv --clear $(VENV)/focus && \
	    $(FOCUS_BIN)/python -m pip install --disable-pip-version-check --no-input --no-compile -q $(FOCUS:%='%'); } >>$(LOG) 2>&1 || \
	    { echo "make: pip could not install $(FOCUS); the end of $(LOG):" >&2; tail -n 5 $(LOG) >&2; exit 1; }; \
	  exit 0; \
	done; \
	echo "FOCUS validator: needs Python 3.12 or newer, its test is skipped" >&2

# DO is install, start, stop or status.
DO ?= start

slurm-lab: $(READY_RUN) $(if $(filter install start,$(DO)),real-slurm) ## a real Slurm with pretended GPUs here; DO=stop ends it, DO=status shows it
	@$(if $(filter install,$(DO)),true,$(BIN)/python -m bursar.testing.slurm_lab $(DO))

# $(1) is what pip is asked for.
define install
if ! $(BIN)/python -m pip install --disable-pip-version-check --no-input -e '$(1)' >$(LOG) 2>&1; then \
	  echo "make: installing the packages failed; the end of $(LOG):" >&2; \
	  tail -n 15 $(LOG) >&2; \
	  echo "make: check the network or pip's configuration, then run make again" >&2; \
	  exit 1; \
	fi
endef

$(READY): $(READY_RUN)
	@echo "make: adding the packages for tests to $(VENV) (once; about a minute)"
	@$(call install,.[dev])
	@touch $(READY)

$(READY_RUN): pyproject.toml
	@python=""; old=""; bare=""; \
	for candidate in $(CANDIDATES); do \
	  "$$candidate" -c "" >/dev/null 2>&1 || continue; \
	  "$$candidate" -c "import sys; sys.exit(sys.version_info < (3, 11))" || { old="$$candidate"; continue; }; \
	  "$$candidate" -c "import venv, ensurepip" >/dev/null 2>&1 || { bare="$$candidate"; continue; }; \
	  python="$$candidate"; break; \
	done; \
	if [ -z "$$python" ]; then \
	  if [ -n "$$bare" ]; then \
	    echo "make: $$bare cannot create environments: its venv module is missing." >&2; \
	    echo "      On Debian and Ubuntu: apt install python3-venv" >&2; \
	  elif [ -n "$$old" ]; then \
	    echo "make: $$old is $$("$$old" -V 2>&1); Bursar needs Python 3.11 or newer." >&2; \
	    echo "      Install one, or name it: make PYTHON=/path/to/python3.11 ..." >&2; \
	  else \
	    echo "make: none of these runs: $(CANDIDATES)" >&2; \
	    echo "      Install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3.11 ..." >&2; \
	  fi; \
	  exit 1; \
	fi; \
	if ! $(BIN)/python -c "import pip, sys; sys.exit(sys.version_info < (3, 11))" >/dev/null 2>&1; then \
	  echo "make: creating $(VENV) with $$("$$python" -V) (once; about 20 seconds)"; \
	  "$$python" -m venv --clear $(VENV) || exit 1; \
	fi; \
	$(call install,.); \
	touch $(READY_RUN)
