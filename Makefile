# make help lists what there is. PYTHON=... chooses another interpreter (3.11 or newer).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ENGINES := $(VENV)/.engines

.DEFAULT_GOAL := help
.PHONY: help faults demo test check lint types contracts unit bench bench-smoke overshoot guarantees guarantees-cgroup2 attack attacks-page mutants soak test-hosts test-hosts-all hosts-table clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml scripts/setup.sh scripts/install.sh
	@PYTHON=$(PYTHON) VENV=$(VENV) scripts/setup.sh
	@touch $@

$(ENGINES): $(STAMP) scripts/engines.sh
	@scripts/engines.sh
	@touch $@

demo: $(STAMP) ## the main job on real input: HumanEval, sandboxed, then wrong and hostile answers
	$(BIN)/python -m examples.humaneval

check: lint types contracts unit ## what every commit must pass; under a minute

lint: $(STAMP) ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## mypy --strict
	$(BIN)/mypy

contracts: $(STAMP) ## who may import whom
	$(BIN)/lint-imports

unit: $(STAMP) ## tests that fork nothing
	$(BIN)/python -m pytest -q tests/unit tests/property

test: $(ENGINES) ## everything, as this user, and as an ordinary one too when this is root
	scripts/test.sh $(BIN)/python

bench: $(ENGINES) ## what cold and warm runs cost, beside others; each wall, each backend, counting, a project (others: pip install -e '.[bench]')
	$(BIN)/python bench/cold.py
	@echo
	$(BIN)/python bench/walls.py
	@echo
	$(BIN)/python -m bench.backends
	@echo
	$(BIN)/python -m bench.operations
	@echo
	$(BIN)/python -m bench.projects
	$(BIN)/python -m bench.batch
	$(BIN)/python -m bench.hostile
	$(BIN)/python -m bench.neighbours
	@echo
	$(BIN)/python -m bench.warm --json bench/results/warm.json

bench-smoke: $(ENGINES)
	$(BIN)/python bench/cold.py --smoke
	$(BIN)/python bench/walls.py --runs 3
	$(BIN)/python -m bench.backends --runs 3
	$(BIN)/python -m bench.operations --smoke
	$(BIN)/python -m bench.projects --smoke
	$(BIN)/python -m bench.batch --smoke
	$(BIN)/python -m bench.hostile --smoke
	$(BIN)/python -m bench.neighbours --smoke
	$(BIN)/python -m bench.resume --smoke
	$(BIN)/python -m bench.warm --smoke

overshoot: $(ENGINES) ## how far past its limit a run gets, worst of 50
	$(BIN)/python bench/overshoot.py

guarantees: $(ENGINES) ## docs/guarantees.md, from real runs (root)
	scripts/guarantees.sh $(BIN)/python

guarantees-cgroup2: $(STAMP) ## docs/guarantees-cgroup2.md: the same in QEMU, where cgroup v2 is all there is (root; a quarter of an hour)
	@scripts/setup-hosts.sh
	$(BIN)/python -m tests.hosts attack

attack: $(STAMP) ## every attack on every backend of this machine; under five minutes
	$(BIN)/python -m stockade attack --all --jobs 2

faults: $(STAMP) ## docs/faults.md: each helper process killed, stopped and cut off, before, during and after runs (root)
	$(BIN)/python -m tests.system.fault_table

attacks-page: $(STAMP) ## docs/attacks.md, from the corpus and the list of vectors
	$(BIN)/python -m tests.escape.vectors

mutants: $(STAMP) ## docs/mutants.md: each protection switched off in a copy, and which attacks notice (root)
	scripts/mutants.sh $(BIN)/python

soak: $(ENGINES) ## 2,000 runs, 16 at a time, and nothing left
	STOCKADE_SOAK=2000 $(BIN)/python -m pytest -q tests/system/test_soak.py

test-hosts: $(STAMP) ## the same on another kernel: cgroup v2 in QEMU, as root, delegated, and with no group
	@scripts/setup-hosts.sh
	$(BIN)/python -m tests.hosts run

test-hosts-all: $(STAMP) ## as every kind of caller that the harness knows
	@scripts/setup-hosts.sh
	$(BIN)/python -m tests.hosts run --all

hosts-table: $(STAMP) ## the tables of docs/hosts.md, from real runs (root)
	$(BIN)/python -m tests.hosts.table

clean: ## remove what make made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
