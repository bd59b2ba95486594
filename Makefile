# Brokerlab: run a scenario, see the verdict. `make` or `make help` lists what there is.

SCENARIO ?= scenarios/quickstart.yaml
PYTEST_ARGS ?=
# Handed over by the environment, so that names with spaces and quotes survive the shell.
export SCENARIO

BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help run test test-full check images bench clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | while IFS='|' read -r name text; do \
	  printf '  make %-10s %s\n' "$$name" "$$text"; done

# lab ends 0 pass, 1 fail, 2 unknown, 3 error; make can only end 0 or 2, so the code is printed last.
run:  ## run a scenario and print its verdict: make run [SCENARIO=scenarios/quickstart.yaml]
	@code=3; if .ci/setup; then code=0; $(BIN)/lab run "$$SCENARIO" || code=$$?; fi; \
	case $$code in 0) word=pass ;; 1) word=fail ;; 2) word=unknown ;; *) word=error ;; esac; \
	echo "verdict: $$word (lab exit $$code)"; exit $$code

test:  ## lint, types and the quick tests (PYTEST_ARGS=… for more arguments)
	@.ci/setup --test
	@$(MAKE) --no-print-directory check
	@$(BIN)/python -m pytest -m "not full" $(PYTEST_ARGS)

test-full:  ## the same with every test
	@.ci/setup --test
	@$(MAKE) --no-print-directory check
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

check:  ## ruff (lint and format) and mypy
	@.ci/setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

images:  ## make the container images now instead of at the first run
	@.ci/setup
	@$(BIN)/python -m lab.runtimes.images

bench:  ## measure the lab itself, against peers where there are some
	@.ci/setup --bench
	@$(BIN)/python -m tests.bench

clean:  ## remove what runs left on this machine, and caches; runs/ and .venv stay
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info
	@find . \( -path ./.venv -o -path ./runs -o -path ./.git \) -prune -o -name __pycache__ -type d -exec rm -rf {} +
	@if [ -x $(BIN)/lab ]; then PYTHONDONTWRITEBYTECODE=1 $(BIN)/lab clean; fi
