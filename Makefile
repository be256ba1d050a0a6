# Each target does all its own set-up on a machine that has Python 3.11+, make and a C library.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --disable-pip-version-check --quiet install --constraint constraints.txt

.PHONY: demo test test-ray docs bench clean

demo: $(VENV)/.demo
	$(BIN)/unspot demo

# Two test processes of one thread each use two cores better than one process of two threads.
test: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q --numprocesses 2 --dist worksteal --ignore tests/scale/test_ray.py $(ARGS)
	$(MAKE) --no-print-directory test-ray

# Ray starts a dozen processes of its own and wants the machine to itself: after the others.
test-ray: $(VENV)/.test
	$(BIN)/python -m pytest -q tests/scale/test_ray.py

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) docs/_build docs/api/generated unspot-demo

# The pinned torch first: another one may bring gigabytes of GPU packages.
$(VENV)/bin/pip: constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch==2.13.0
	@touch $@

$(VENV)/.demo: $(VENV)/bin/pip pyproject.toml
	$(PIP) --editable '.[io,report]'
	@touch $@

$(VENV)/.test: $(VENV)/bin/pip pyproject.toml
	$(PIP) --editable '.[test]'
	@touch $@

$(VENV)/.docs: $(VENV)/bin/pip pyproject.toml
	$(PIP) --editable '.[docs]'
	@touch $@
