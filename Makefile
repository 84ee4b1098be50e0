# SPDX-License-Identifier: Apache-2.0
#
# Everything runs in a virtual environment of its own (.venv), made at the first target that needs it.
# `make PYTHON=python3.12 VENV=.venv312 test` takes another interpreter.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; break; fi; done)
PYTHONS ?= $(shell for p in python3.11 python3.12 python3.13 python3.13t python3.14 python3.14t \
	$(wildcard $(HOME)/.pyenv/versions/3.1[1-9]*/bin/python); do \
	$$p -c 'import os, sys; print(os.path.realpath(sys.executable))' 2>/dev/null; done | sort -u)
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
HYPOTHESIS_PROFILE ?= dev
export HYPOTHESIS_PROFILE
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test check docs bench nightly pythons clean
.DEFAULT_GOAL := help

help:
	@echo "make demo     a receiver, an application that logs, an outage, and the closed account"
	@echo "make test     all tests and property tests"
	@echo "make check    ruff, mypy --strict, import floors, docstrings, generated docs"
	@echo "make docs     write docs/settings.md anew"
	@echo "make bench    measure it on this machine"
	@echo "make nightly  what takes long: thousands of examples, mutants, memory, a long demo"
	@echo "make pythons  the tests on every Python at hand"
	@echo "make clean    remove the virtual environment and all caches"

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "structbatch needs Python 3.11 or newer: make PYTHON=/path/to/python3 ..." >&2; exit 1; }
	@echo "installing into $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "no virtual environment: on Debian, install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

demo: $(STAMP)
	@$(BIN)/structbatch demo

test: $(STAMP)
	@$(BIN)/python -m pytest --quiet

check: $(STAMP)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache --no-logo
	@$(BIN)/interrogate --quiet structbatch || { $(BIN)/interrogate -vv structbatch | grep MISSED; exit 1; }
	@$(BIN)/python docs/generate.py --check
	@echo "all checks passed"

docs: $(STAMP)
	@$(BIN)/python docs/generate.py

bench: $(STAMP)
	@for name in log_call transport slow_server "memory --quick" "stock_vs_batch --quick"; do \
		echo "-- bench.$$name"; $(BIN)/python -m bench.$$name || exit 1; done

nightly: $(STAMP)
	HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest --quiet --timeout 0 property_tests
	$(BIN)/python -m property_tests.mutants
	@$(MAKE) --no-print-directory pythons
	$(BIN)/python -m bench.memory
	$(BIN)/python -m bench.slow_server
	$(BIN)/python -m bench.stock_vs_batch
	$(BIN)/structbatch demo --events 2000000 --outage 20s

# The tests on every Python at hand, each in an environment of its own; what races, races longer.
pythons:
	@for python in $(PYTHONS); do \
		version=$$($$python -c 'import sys, sysconfig; print(sys.implementation.name, *sys.version_info[:2], \
			"t" if sysconfig.get_config_var("Py_GIL_DISABLED") else "", sep="")'); \
		echo "-- $$version"; \
		STRUCTBATCH_TEST_NIGHTLY=1 PYTEST_ADDOPTS=--timeout=1200 \
			$(MAKE) --no-print-directory PYTHON=$$python VENV=.venv-$$version test || exit 1; \
		.venv-$$version/bin/python -m tests.integration.reentry --seconds 20 || exit 1; \
	done

clean:
	@rm -rf .venv* build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .coverage* htmlcov
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
