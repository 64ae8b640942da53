# Two commands matter: `make run` shows Veil at work, `make test` proves it.
#
#   make run               installs into .venv and starts the demo (make run ARGS=--once ends by itself)
#   make test              lint, types, import contracts and all tests; ends with pytest's own summary line
#   make unit              the tests that need no broker
#   make soak              the tests that look long, for half an hour: kills, flips and swaps under load, 9 000 readers
#   make lint              ruff, mypy and import-linter alone
#   make bench             measures: runs every bench/*.py (make bench ARGS=… hands them arguments)
#   make wheel             builds dist/*.whl and dist/*.tar.gz from nothing that was there before
#   make brokers           installs the brokers that the tests talk to (Debian, root)
#   make clean             removes what the targets above made, the environment included
#
# No git and no root is needed for run and test. PYTHON=… picks the interpreter (3.11 or newer).

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
TESTS ?=
# The first interpreter that answers and is new enough; asked by running it, since a name on the PATH may be a shim to nothing.
FIND_PYTHON = for each in "$(PYTHON)" python3.14 python3.13 python3.12 python3.11 python3 python; do \
	if [ -n "$$each" ] && "$$each" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
		command -v "$$each"; break; fi; done
# An environment remembers its folder in its scripts: after the tree was moved or copied it is made anew.
ifneq ($(shell cat $(VENV)/.folder 2>/dev/null),$(CURDIR))
MOVED := moved
endif
# What the compiled scanner is made of: changed, it is built again.
SCANNER := rules/scan/fingerprint.py $(wildcard rules/scan/*.pyx rules/scan/*.pxi rules/scan/*.pxd rules/scan/*.h)

.DEFAULT_GOAL := help
.PHONY: help run test unit soak lint bench wheel brokers clean moved
# Steps stop at the first failure and are not run side by side: the last line must be pytest's.
.NOTPARALLEL:

help:
	@sed -n 's/^#   make/make/p' Makefile

run: $(VENV)/.demo
	@exec $(BIN)/python -m proxy demo $(ARGS)

test: lint
	@$(BIN)/python -bb -m pytest $(TESTS)

unit: $(VENV)/.test
	@$(BIN)/python -bb -m pytest -m "not broker and not soak" $(TESTS)

soak: $(VENV)/.test
	@$(BIN)/python -bb -m pytest -m soak $(TESTS)

lint: $(VENV)/.test
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo > $(VENV)/lint-imports.log 2>&1 || { cat $(VENV)/lint-imports.log >&2; exit 1; }
	@echo "lint, types and import contracts: passed"

bench: $(VENV)/.bench
	@found=; for each in bench/*.py; do case "$$each" in */_*|*'*'*) continue;; esac; found=yes; \
		echo "$$each"; $(BIN)/python -m "bench.$$(basename "$$each" .py)" $(ARGS) || exit 1; done; \
	[ -n "$$found" ] || { echo "there is nothing to measure: no bench/*.py" >&2; exit 1; }

# From the sdist, so that what is missing in it shows.
wheel: $(VENV)/.build
	@rm -rf build dist *.egg-info
	@if command -v uv >/dev/null 2>&1 && uv build --quiet --python $(BIN)/python --out-dir dist .; then :; \
	else $(BIN)/python -m build --outdir dist . > $(VENV)/build.log 2>&1 || { cat $(VENV)/build.log >&2; exit 1; }; fi
	@ls dist/*.whl dist/*.tar.gz

brokers:
	@tests/brokers/install.sh

clean:
	rm -rf $(VENV) artifacts build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage
	rm -f rules/scan/*.so rules/scan/*.pyd
	find rules proxy tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.folder: $(MOVED)
	@python=$$($(FIND_PYTHON)); \
	if [ -z "$$python" ]; then echo "Veil needs Python 3.11 or newer, and none was found: install it, or name it with PYTHON=/its/path" >&2; exit 1; fi; \
	rm -rf $(VENV); \
	if command -v uv >/dev/null 2>&1 && uv venv --quiet --python "$$python" $(VENV); then :; \
	elif ! "$$python" -m venv $(VENV); then \
		rm -rf $(VENV); echo "$$python cannot make an environment: on Debian and Ubuntu install python3-venv" >&2; exit 1; fi; \
	printf '%s\n' "$(CURDIR)" > $@

# A stamp for each set: the second run starts at once; what decides on packages or on the compiled scanner installs again.
$(VENV)/.demo $(VENV)/.test $(VENV)/.bench $(VENV)/.build: $(VENV)/.%: $(VENV)/.folder pyproject.toml setup.py $(SCANNER)
	@echo "installing Veil into $(VENV) ($*) …" >&2; \
	install() { \
		if command -v uv >/dev/null 2>&1 && uv pip install --quiet --python $(BIN)/python --reinstall-package veil "$$@"; then :; \
		elif [ -x $(BIN)/pip ] || $(BIN)/python -m ensurepip >/dev/null; then \
			$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$@"; \
		else echo "neither uv nor pip could install Veil" >&2; return 1; fi; }; \
	if [ "$*" != demo ]; then install -e '.[$*]'; \
	elif ! install --only-binary=confluent-kafka -e '.[demo]'; then \
		echo "no confluent-kafka for this machine: the demo goes without Kafka" >&2; install -e '.[demo-redis]'; fi
	@$(BIN)/python -c 'import sys, rules.scan as s; sys.exit(s.ENGINE != "compiled")' || \
		echo "the scanner is the one in Python: for the faster one, install a C compiler and Python.h, then make clean" >&2
	@touch $@
