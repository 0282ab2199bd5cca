# Everything runs from .venv in the checkout; `make setup` makes it. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON_IN_VENV := .venv/bin/python
PYTEST_ARGS ?=
# Test processes. The tests of one file stay in one process, in order.
TEST_PROCESSES ?= 2
# These run in real time and get the machine to themselves.
REALTIME_TESTS := tests/integration/robot_sdk tests/integration/end_to_end \
  tests/integration/vllm/test_long_answers.py
BENCH_OUT := out/bench

# Many small processes share the cores; one thread each keeps numpy and torch from fighting.
export OMP_NUM_THREADS ?= 1
export TORCH_INDEX_URL

.PHONY: help setup demo test test-long lint format protos protos-check bare-check examples bench study-engine clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

setup: ## create or update .venv (Python 3.11) with server, simulator and tools
	@tests/tools/setup_environment.sh

demo: setup ## two robots, one admission slot, real LIBERO-PRO tasks; leaves out/demo
	$(PYTHON_IN_VENV) -m sim demo

test: setup ## every test but the long ones
	$(PYTHON_IN_VENV) -m pytest -n $(TEST_PROCESSES) --dist loadfile $(addprefix --ignore=,$(REALTIME_TESTS)) $(PYTEST_ARGS)
	env -u ROBOT_SDK_REQUIRED_MARKERS $(PYTHON_IN_VENV) -m pytest $(REALTIME_TESTS) $(PYTEST_ARGS)

test-long: setup ## every test, the long ones at full length
	ROBOT_SDK_LONG=1 $(PYTHON_IN_VENV) -m pytest -m '' $(PYTEST_ARGS)

lint: setup protos-check ## style, types, import rule, wire contract
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/lint-imports
	.venv/bin/mypy --strict --python-version 3.10 robot_sdk
	.venv/bin/mypy --strict server/core
	.venv/bin/mypy server sim
	.venv/bin/buf lint protos

format: setup ## format the code and sort imports
	.venv/bin/ruff check --fix --select I .
	.venv/bin/ruff format .

protos: setup ## regenerate robot_sdk/api/v1 from protos/
	@tests/tools/generate_protos.sh
	.venv/bin/buf lint protos

protos-check: setup ## fail if robot_sdk/api/v1 is not what protos/ generates
	@tests/tools/generate_protos.sh --check

bare-check: setup ## the wheel alone, in empty environments: oldest and newest dependencies
	@tests/tools/check_bare_sdk.sh

examples: setup ## run every example on this CPU
	@tests/tools/run_examples.sh

bench: setup ## benchmarks; writes out/bench/*.json
	@tests/tools/run_benchmarks.sh $(BENCH_OUT)

study-engine: setup ## fetch the study's vLLM 0.17.1 for the cliff and the replay (never installed)
	@tests/tools/fetch_study_engine.sh out/study-engine

clean: ## remove outputs and caches (the environments stay)
	rm -rf out build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +
