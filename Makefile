# Every command bootstraps what it needs, into .venv and the user's cache folder. Start with `make demo` or `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install -q --disable-pip-version-check --require-hashes
RUN_READY := $(VENV)/.ready-run
DEV_READY := $(VENV)/.ready-dev
SETTINGS ?=
TESTS ?= tests

.PHONY: help demo serve test test-fast check format bench soak engine lock clean

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: ## The main job end to end, on a real SGLang: from a prompt file to a page to review
	@$(PYTHON) scripts/bootstrap.py demo
	@$(BIN)/python -m demo

serve: $(RUN_READY) ## The app alone, for people with their own SGLang
	@$(BIN)/python -m api $(SETTINGS)

test: $(DEV_READY) ## Every test: real SGLang, real browser, real PostgreSQL (installs the last two where it may)
	@$(PYTHON) scripts/system_packages.py
	@$(PYTHON) scripts/bootstrap.py engine
	@$(MAKE) --no-print-directory check
	@$(BIN)/pytest -n 2 --dist loadfile -m "not engine" $(TESTS)
	@$(BIN)/pytest -m engine $(TESTS)

test-fast: $(DEV_READY) ## Tests without browser, PostgreSQL or engine, for the edit loop
	@$(BIN)/pytest -n 2 --dist loadfile -m "not engine and not browser and not postgres and not slow" $(TESTS)

check: $(DEV_READY) ## Lint, formatting, types, import rules, migrations against models
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m db.migrate --check

format: $(DEV_READY) ## Format and apply safe fixes
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

bench: $(DEV_READY) ## The performance table of the README, peers beside it where they can be installed
	@$(BIN)/python -m bench

soak: $(DEV_READY) ## The long series of kills on real processes
	@DRAFTMILL_SOAK=1 DRAFTMILL_LIVES=40 $(BIN)/pytest tests/worker tests/backends/test_life_machine.py -m "not engine"

engine: ## SGLang in an environment of its own, in the user's cache folder
	@$(PYTHON) scripts/bootstrap.py engine

lock: $(DEV_READY) ## Pin every dependency with hashes, naming no download address
	@$(BIN)/python scripts/lock.py

clean: ## Forget the environment; data, engine and checkpoints stay
	@rm -rf $(VENV) .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(RUN_READY): requirements.lock
	@$(PYTHON) scripts/bootstrap.py app

$(DEV_READY): requirements-dev.lock
	@$(PYTHON) scripts/bootstrap.py dev
