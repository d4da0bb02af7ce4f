# `make demo` and `make test` do everything, `make check` the fast part of it; `make setup` is their first step.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= $(shell command -v python3.11 || command -v python3)
# an extra package index, e.g. PyTorch's CPU-only one
TORCH_INDEX ?=
# optional parts of the environment, by the name of their lock: make setup EXTRAS=cluster
EXTRAS ?=
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
# tests run the samplers over partitions, so they need Dask (10 MB), which setup alone does not install
TEST_STAMP := $(VENV)/.cluster
export PYTHONHASHSEED := 0
# containers often set it: every process, and pytest for every test file, would then compile all sources anew
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test check measure test-slow lint format reproduce results docs faults estimate rerun clean env-files bench kernels

help:  ## say what each target does
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /: /' | column -t -s: -l 2

setup: $(STAMP) $(EXTRAS:%=$(VENV)/.%)  ## make .venv and install everything that is pinned in envs

$(STAMP): envs/cpu.lock envs/docs.lock pyproject.toml
	@echo "setup: Python environment in $(VENV) (about 2.4 GB; 2-8 minutes at first)"
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info[:2] == (3, 11) else \
	  "setup: Python 3.11 is needed, this is %d.%d; set PYTHON=/path/to/python3.11" % sys.version_info[:2])'
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "setup: the venv module is missing; on Debian: apt install python3-venv make"; exit 1; }
	@start=$$SECONDS; \
	  test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) -r envs/cpu.lock -r envs/docs.lock; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .; \
	  touch $(STAMP); echo "setup: done in $$((SECONDS - start)) s"

$(VENV)/.%: envs/%.lock | $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r $< && touch $@
	@echo "setup: $*"

demo: setup  ## run the quick study end to end without any download; leaves results/report.html
	@start=$$SECONDS; $(BIN)/dpgnn run quick || { code=$$?; test $$code = 130 || exit $$code; kill -INT $$PPID; exit 0; }; \
	  echo "demo: done in $$((SECONDS - start)) s; open results/report.html"

test: setup $(TEST_STAMP) lint  ## format, lint, types, workflow checks and all tests but the slow ones
	@start=$$SECONDS; OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not slow"; \
	  echo "test: done in $$((SECONDS - start)) s"

check: setup $(TEST_STAMP) lint  ## format, lint, types and the fast tests, in about two minutes
	@start=$$SECONDS; OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not slow" --fast; \
	  echo "check: done in $$((SECONDS - start)) s"

measure: setup $(TEST_STAMP)  ## run the tests of `make test` and write anew which of them are slow (tests/slow_tests.txt)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not slow" --measure

test-slow: setup $(TEST_STAMP)  ## the slow tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile -m slow

kernels: setup  ## run the GPU's fused kernels on the CPU, in Triton's interpreter (300 MB to download)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --target work/kernels -r envs/kernels.lock
	PYTHONPATH=work/kernels OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/training/gpu/test_kernels.py

lint: setup
	@echo "lint: ruff, mypy, snakefmt, snakemake --lint"
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/snakefmt --check Snakefile workflow > /dev/null 2>&1 || \
	  { echo "snakefmt: run make format"; exit 1; }
	@$(BIN)/snakemake --lint > /dev/null 2>&1 || $(BIN)/snakemake --lint

format: setup  ## format code and rules
	$(BIN)/ruff format . && $(BIN)/ruff check --fix . && $(BIN)/snakefmt Snakefile workflow

reproduce: setup  ## a paper's study: make reproduce STUDY=drw TIER=M
	$(BIN)/dpgnn run $(STUDY) $(if $(TIER),--tier $(TIER))

results: setup  ## docs/results.md, its pages and figures from the records in docs/reference
	$(BIN)/dpgnn report --docs

docs: setup  ## the site, docs/_build/html, from docs and the code; notebooks are executed, warnings are errors
	@OMP_NUM_THREADS=1 $(BIN)/python -m docs.site.build

faults: setup  ## the tables of docs/reliability.md from the rows of tests/faults and tests/bad_input
	PYTHONPATH=.:tests $(BIN)/python -m faults.table

estimate: setup  ## runs and hours of a study: make estimate STUDY=drw TIER=M
	$(BIN)/dpgnn run $(STUDY) $(if $(TIER),--tier $(TIER)) --estimate

rerun: setup  ## one cell again: make rerun STUDY=quick RUN=DATASET.SETTING/ENTRY/eps=EPSILON/REPEAT
	$(BIN)/dpgnn train --study $$($(BIN)/dpgnn run $(STUDY) --file) --run '$(RUN)'

bench: setup  ## the benchmarks (minutes; machine should be quiet)
	$(BIN)/python -m benchmarks.training_step && $(BIN)/python -m benchmarks.samplers && \
	  $(BIN)/python -m benchmarks.full_batch && $(BIN)/python -m benchmarks.overhead

env-files: setup  ## conda and GPU files from the one lock
	$(BIN)/python envs/generate.py

clean:  ## remove what rules made (raw data, releases and .venv stay)
	rm -rf results work logs .snakemake docs/_build
