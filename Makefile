# `make` alone lists the targets. Everything runs in .venv, which `setup` makes and the other targets call first.
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.ready
PYTHON ?= python3
TORCH_INDEX_URL ?=
CONSTRAINTS ?= constraints/cpu.txt
# Tests run in a worker for each core. tests/conftest.py distributes the tests.
PARALLEL := -n auto --maxprocesses 8
GPU := $(shell command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L 2>/dev/null | grep -c GPU)

# Workers, the programs that tests start and later runs share compiled sources.
export PYTHONDONTWRITEBYTECODE :=

ifeq ($(filter-out 0,$(GPU)),)
EXTRAS := lab,dev
PIP_ARGS := -c $(CONSTRAINTS) $(if $(TORCH_INDEX_URL),--extra-index-url $(TORCH_INDEX_URL))
else
EXTRAS := lab,dev,cuda
PIP_ARGS := $(if $(TORCH_INDEX_URL),--extra-index-url $(TORCH_INDEX_URL))
endif

.PHONY: help setup demo test test-slow test-all lab lint docs bench
.DEFAULT_GOAL := help

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make .venv with sgnb and its tools (without a GPU: the CPU build of torch)

$(STAMP): pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q $(PIP_ARGS) -e ".[$(EXTRAS)]"
	@touch $@

demo: $(STAMP)  ## run the quickstart notebook on the bundled model
	$(PY) -m tools.demo

test: $(STAMP)  ## run the tests but the slow ones (GPU tests with a GPU, browser tests with Chromium)
	$(PY) -m pytest $(PARALLEL) -m "not slow and not alone"
ifneq ($(filter-out 0,$(GPU)),)
	$(PY) -m pytest -m alone
endif

test-slow: $(STAMP)  ## run the tests that `make test` leaves out
	$(PY) -m pytest $(PARALLEL) -m slow

test-all: test test-slow  ## run every test

lab: $(STAMP)  ## open the notebooks in JupyterLab
	$(PY) -m jupyter trust notebooks/*.ipynb  # or JupyterLab shows their pictures as text
	$(PY) -m jupyter lab notebooks/01_quickstart.ipynb

lint: $(STAMP)  ## ruff, mypy, ceilings of names and prose; prettier and eslint (with npm)
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(PY) -m tools.prose
ifneq ($(shell command -v npm),)
	npm ci --silent
	npm run --silent lint
else
	@echo "npm not found: the JavaScript of the views was not checked"
endif

docs: $(STAMP)  ## build the documentation's site, docs/_site/index.html
	$(PY) -c "import furo, myst_nb, sphinx_copybutton" 2>/dev/null || \
		$(PY) -m pip install -q $(PIP_ARGS) -e ".[$(EXTRAS),docs]"
	$(PY) -m tools.site

# On a GPU, `make bench PEERS="vllm=DIR sglang=DIR"` measures those servers too; DIR is a folder with their packages.
bench: $(STAMP)  ## install the peers that benchmarks compare with, and run the benchmarks (those of a GPU with a GPU)
	$(PY) -m pip install -q $(PIP_ARGS) -e ".[$(EXTRAS),bench]"
	$(PY) -m pip install -q --no-deps guidance guidance-stitch  # its pin of llguidance is older than ours
	PEERS="$(PEERS)" $(PY) -m benchmarks
