# Commands for contributors. `make setup` installs all tools in .venv.
.DEFAULT_GOAL := help
.PHONY: help setup run test nightly lint fix lock bench pictures release

BIN := .venv/bin

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## create .venv with everything that the other targets need
	python3 -m venv .venv
	$(BIN)/pip install -q -r tests/requirements.txt

run: ## run the service with PostgreSQL and demo data, reloading what changes
	$(BIN)/task-service dev

test: ## run the quick tests; `.venv/bin/pytest -m slow` runs those that take more than a second each
	$(BIN)/pytest

nightly: ## run the long tests that .ci/run leaves out; STEPS="fuzz faults" runs these two
	.ci/nightly $(STEPS)

lint: ## check style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fix: ## repair style and formatting, as far as ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# "make lock UPGRADE=" keeps each version that still fits.
UPGRADE := --upgrade
lock: ## update requirements.txt to the newest versions that setup.cfg allows
	$(BIN)/uv pip compile setup.cfg --quiet $(UPGRADE) --universal --python-version 3.11 \
		--generate-hashes --no-annotate --custom-compile-command 'make lock' \
		--output-file requirements.txt

bench: ## measure CPU per request; needs wrk (apt-get install wrk)
	$(BIN)/python -m bench

pictures: ## take the pictures of the pages; needs Chromium (apt-get install chromium)
	cd tests && PATH="$$PWD/../$(BIN):$$PATH" ../$(BIN)/python -m support.pictures

release: ## make a release: VERSION=1.2.3; CONTRIBUTING.md says what it does
	$(BIN)/python .ci/release.py $(VERSION)
