# `make help` lists the commands. PYTHON=... chooses another interpreter (3.11 or newer).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ENGINES := $(VENV)/.engines
SITE_TOOLS := $(VENV)/.site-tools

.DEFAULT_GOAL := help
.PHONY: help docs faults demo test test-user test-integrations test-projects test-pythons fuzz-embedded audit-embedded fuzz-service check lint types contracts unit unit-part unit-rest bench bench-smoke overshoot guarantees guarantees-cgroup2 attack attacks-oci attacks-docker docker attacks-podman podman gvisor microvm attacks-page reference e2b-table mutants soak test-hosts test-hosts-all hosts-table clean

help: ## print this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml scripts/setup.sh scripts/install.sh
	@PYTHON=$(PYTHON) VENV=$(VENV) scripts/setup.sh
	@touch $@

$(ENGINES): $(STAMP) scripts/engines.sh scripts/kernel.sh
	@scripts/engines.sh
	@touch $@

$(SITE_TOOLS): $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

demo: $(STAMP) ## run HumanEval in sandboxes, then wrong and hostile answers
	$(BIN)/python -m examples.humaneval

check: $(STAMP) ## lint, types, imports and tests that do not fork; under a minute
	@$(MAKE) --no-print-directory -j2 --output-sync=target unit-rest unit-part types lint contracts

lint: $(STAMP) ## run ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## run mypy --strict
	$(BIN)/mypy

contracts: $(STAMP) ## check which module imports which
	$(BIN)/lint-imports

# Two parts that take about as long, for two processors.
UNIT := HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -q
PART := tests/unit/embedded tests/property

unit: unit-rest unit-part ## run the tests that do not fork, with fewer examples of each property than make test

unit-part: $(STAMP)
	$(UNIT) -o cache_dir=.pytest_cache/part $(PART) --deselect tests/property/test_workspaces.py::test_committed_changes_give_what_the_guest_saw

unit-rest: $(STAMP)
	$(UNIT) tests/unit $(patsubst %,--ignore=%,$(PART))

test: $(ENGINES) ## run all tests; as root, tests that touch the kernel run as an ordinary user too
	scripts/test.sh $(BIN)/python

test-user: $(ENGINES) ## run all tests that touch the kernel as an ordinary user; make test runs a part of them (root)
	scripts/as-user.sh -m tests.twice tests/contract tests/escape tests/system

test-projects: $(STAMP) ## run the suites of real projects in sandboxes and outside, and compare them (downloads them)
	status=0; $(BIN)/python scripts/projects.py || status=1; \
	if [ "$$(id -u)" = 0 ]; then scripts/as-user.sh scripts/projects.py || status=1; fi; exit $$status

test-integrations: ## run the checks of frameworks over our adapters, each in a virtual environment of its own (FRAMEWORKS=...: these)
	scripts/integrations.sh $(FRAMEWORKS)

bench: $(ENGINES) ## measure the cost of runs beside other tools (install these: pip install -e '.[bench]')
	$(BIN)/python bench/cold.py
	@echo
	$(BIN)/python bench/walls.py
	@echo
	$(BIN)/python -m bench.start
	@echo
	$(BIN)/python -m bench.backends
	@echo
	$(BIN)/python -m bench.engines
	@echo
	$(BIN)/python -m bench.operations
	@echo
	$(BIN)/python -m bench.projects
	$(BIN)/python -m bench.batch
	$(BIN)/python -m bench.way_out
	$(BIN)/python -m bench.hostile
	$(BIN)/python -m bench.embedded
	$(BIN)/python -m bench.neighbours
	$(BIN)/python -m bench.sandboxes
	@echo
	$(BIN)/python -m bench.warm --json bench/results/warm.json

bench-smoke: $(ENGINES)
	$(BIN)/python bench/cold.py --smoke
	$(BIN)/python bench/walls.py --runs 3
	$(BIN)/python -m bench.backends --runs 3
	$(BIN)/python -m bench.operations --smoke
	$(BIN)/python -m bench.projects --smoke
	$(BIN)/python -m bench.batch --smoke
	$(BIN)/python -m bench.way_out --smoke
	$(BIN)/python -m bench.hostile --smoke
	$(BIN)/python -m bench.neighbours --smoke
	$(BIN)/python -m bench.resume --smoke
	$(BIN)/python -m bench.sandboxes --smoke
	$(BIN)/python -m bench.embedded --smoke
	$(BIN)/python -m bench.warm --smoke

overshoot: $(ENGINES) ## measure how far a run exceeds its limits, worst of 50
	$(BIN)/python bench/overshoot.py

guarantees: $(ENGINES) ## write docs/guarantees.md from real runs (root)
	scripts/guarantees.sh $(BIN)/python

guarantees-cgroup2: $(STAMP) ## write docs/guarantees-cgroup2.md: the same in QEMU with only cgroup v2 (root; 15 minutes)
	@scripts/setup-hosts.sh
	$(BIN)/python -m tests.hosts attack

attack: $(STAMP) ## run every attack on every backend of this machine; under five minutes
	$(BIN)/python -m stockade attack --all --jobs 2

faults: $(STAMP) ## write docs/faults.md: kill, stop and cut off each helper before, during and after runs (root)
	$(BIN)/python -m tests.system.fault_table

attacks-oci: $(ENGINES) ## run the whole attack corpus over the backend oci; make test runs a part of it
	STOCKADE_WHOLE=1 $(BIN)/python -m pytest -q tests/escape/test_attacks.py -k oci

attacks-docker: $(ENGINES) ## run the attacks in Python and shell over the backend docker (root); make test runs a part
	STOCKADE_WHOLE=1 $(BIN)/python -m pytest -q tests/escape/test_docker_attacks.py

docker: $(ENGINES) ## run the whole conformance suite over the backend docker (root); make test runs a part
	STOCKADE_WHOLE=1 $(BIN)/python -m pytest -q tests/contract/test_docker.py

attacks-podman: $(ENGINES) ## run the attacks in Python and shell over the backend podman (root); make test runs a part
	STOCKADE_WHOLE=1 $(BIN)/python -m pytest -q tests/escape/test_podman_attacks.py

podman: $(ENGINES) ## run the whole conformance suite over the backend podman (root); make test runs a part
	STOCKADE_WHOLE=1 $(BIN)/python -m pytest -q tests/contract/test_podman.py

gvisor: $(ENGINES) ## run the conformance suite and all attacks over the backend gvisor (root, ten minutes); make test runs a part
	STOCKADE_WHOLE=1 $(BIN)/python -m pytest -q tests/contract/test_gvisor.py tests/system/test_gvisor.py

microvm: $(ENGINES) ## run more tests and attacks over the backend microvm (minutes); make test runs a part
	STOCKADE_WHOLE=1 $(BIN)/python -m pytest -q tests/system/test_microvm.py

attacks-page: $(STAMP) ## write docs/attacks.md from the corpus and the list of vectors
	$(BIN)/python -m tests.escape.vectors

reference: $(STAMP) ## write docs/reference.md from the docstrings of the public names
	$(BIN)/python -m tests.docs.reference

docs: $(SITE_TOOLS) ## build the documentation as a site in site/, and check its links; python -m http.server -d site shows it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	$(BIN)/python scripts/site_check.py site

e2b-table: $(STAMP) ## write docs/e2b.md from the public members of E2B's SDK (downloads it)
	scripts/e2b-table.sh $(BIN)/python

mutants: $(STAMP) ## write docs/mutants.md: switch each protection off in a copy, and see which attacks notice (root)
	scripts/mutants.sh $(BIN)/python

soak: $(ENGINES) ## make 2,000 runs, 16 at a time, and check that nothing is left
	STOCKADE_SOAK=2000 $(BIN)/python -m pytest -q tests/system/test_soak.py

test-pythons: ## run unit tests, native's conformance and scripts on every CPython from 3.11 on that is installed
	scripts/pythons.sh $(VENV)/pythons

fuzz-service: $(STAMP) ## ask a real service for what its schema allows, with schemathesis (10 minutes); make test asks for a part
	STOCKADE_WHOLE=1 $(BIN)/python -m pytest -q tests/system/test_service_schema.py

fuzz-embedded: $(STAMP) ## compare scripts with CPython over generated programs (PROGRAMS=5000 START=0; 5 minutes)
	$(BIN)/python -W ignore -m tests.unit.embedded.differential --programs $(or $(PROGRAMS),5000) --start $(or $(START),0)

audit-embedded: $(STAMP) ## run 10,000 hostile scripts in one process, and check that the host stays as it was (RUNS=10000 START=0; 6 minutes)
	$(BIN)/python -W always -m tests.unit.embedded.audit --runs $(or $(RUNS),10000) --start $(or $(START),0)

test-hosts: $(STAMP) ## run tests on another kernel: cgroup v2 in QEMU, as root, delegated, and without a group
	@scripts/setup-hosts.sh
	$(BIN)/python -m tests.hosts run

test-hosts-all: $(STAMP) ## run these as every kind of caller
	@scripts/setup-hosts.sh
	$(BIN)/python -m tests.hosts run --all

hosts-table: $(STAMP) ## write the tables of docs/hosts.md from real runs (root)
	$(BIN)/python -m tests.hosts.table

clean: ## remove everything that make created
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
