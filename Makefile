# Each target does all its own set-up on a machine that has Python 3.11+, make and a C library.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --disable-pip-version-check --quiet install --constraint constraints.txt

.PHONY: help demo test test-fast test-ray lint docs gallery bench clean

help:  ## Show this list.
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.demo  ## The tour on the bundled words, in about two minutes.
	$(BIN)/unspot demo

# Two test processes of one thread each use two cores better than one process of two threads.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q --numprocesses 2 --dist worksteal

lint: $(VENV)/.test  ## ruff and mypy.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint  ## What CI runs: everything, in under seven minutes on two cores. ARGS="tests/io -k npz" for a part.
	$(PYTEST) --durations 20 --ignore tests/scale/test_ray.py $(ARGS)
	$(MAKE) --no-print-directory test-ray

# Without what is slow: other processes, browsers, whole commands, scikit-learn's own checks.
test-fast: lint  ## ruff, mypy and the quick tests, in about a minute.
	$(PYTEST) -m "not slow" --ignore tests/scale/test_ray.py $(ARGS)

# Ray starts a dozen processes of its own and wants the machine to itself: after the others.
test-ray: $(VENV)/.test
	$(BIN)/python -m pytest -q tests/scale/test_ray.py

docs: $(VENV)/.docs  ## The documentation, in docs/_build/html, in under two minutes.
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

gallery: $(VENV)/.docs  ## The documentation with the outputs and figures of all examples.
	UNSPOT_GALLERY=1 $(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/gallery/index.html"

bench: $(VENV)/.test  ## Benchmarks, as ratios in one run.
	$(BIN)/python -m benchmarks

clean:  ## Remove what the other targets made.
	rm -rf $(VENV) docs/_build docs/api/generated docs/gallery unspot-demo

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
