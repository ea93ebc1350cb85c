# Everything that one does with a clone. Needs Python 3.11 or newer and pip; `.venv` is made here and nothing else is touched.

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
# Four test processes more than there are cores: most tests wait for processes and servers.
JOBS ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 4)

# Tests start hundreds of programs. Compiled once, each starts in two thirds of the time, even where the environment forbids bytecode.
BYTECODE = PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(abspath $(VENV))/bytecode

# The first interpreter that runs and is new enough; PYTHON=... overrides it.
VERSIONS := 3.11 3.12 3.13 3.14
PYTHON ?= $(shell for python in python3 $(VERSIONS:%=python%); do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

ifneq ($(shell command -v uv 2>/dev/null),)
MAKE_VENV = uv venv --quiet --allow-existing --python $(PYTHON) $(VENV)
INSTALL = uv pip install --quiet --python $(BIN)/python
else
MAKE_VENV = $(PYTHON) -m venv $(VENV)
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
endif

.DELETE_ON_ERROR:
.PHONY: help demo test test-clients test-all test-django soak check map llms picture pictures bench clean

help: ## Show what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */  make \1\t/' | expand -t 16

demo: $(STAMPS)/run ## Watch jobs run, fail, retry and survive a kill -9
	@$(BIN)/tenure demo

test: $(STAMPS)/dev ## Run the whole test suite
	@$(BYTECODE) $(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(TESTS)

test-clients: $(STAMPS)/dev $(STAMPS)/clients ## Test the bridges beside the real clients of other systems (needs Node)
	@$(BYTECODE) $(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(wildcard tests/bridges/clients/*/with_client.py)

test-all: $(STAMPS)/dev ## Run the suite at full length, and the short one on every other server and every other Python that is here
	@set -e; found=; for version in 15 18; do \
		TEST_POSTGRES=$$version $(BIN)/python -c 'from tests.servers.postgres import binaries; binaries()' 2>/dev/null || continue; \
		found="$$found $$version"; \
	done; \
	set -- $$found; \
	echo "at full length: Valkey, PostgreSQL $$1"; \
	TENURE_LONG=1 TEST_REDIS=valkey TEST_POSTGRES=$$1 $(MAKE) --no-print-directory test TESTS="-m 'long or not long' --tb=native"; \
	echo 'Redis'; \
	TEST_REDIS=redis $(MAKE) --no-print-directory test TESTS='-k redis'; \
	test $$# = 0 || shift; for version; do \
		echo "PostgreSQL $$version"; \
		TEST_POSTGRES=$$version $(MAKE) --no-print-directory test TESTS="-k 'postgres or AllStores'"; \
	done
	@for version in $(VERSIONS); do \
		test $$version != $$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])') || continue; \
		found=; for python in python$$version $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$$version.*/bin/python; do \
			$$python -c '' 2>/dev/null && found=$$python && break; \
		done; \
		test -n "$$found" || { echo "Python $$version is not here: not tested"; continue; }; \
		echo "Python $$version"; \
		$(MAKE) --no-print-directory test VENV=.venv/$$version PYTHON=$$found || exit 1; \
	done
	@$(MAKE) --no-print-directory test-django

test-django: ## Run tests/django with Django 6.1 on Python 3.13, if that is here
	@found=; for python in python3.13 $${PYENV_ROOT:-$$HOME/.pyenv}/versions/3.13.*/bin/python; do \
		$$python -c '' 2>/dev/null && found=$$python && break; \
	done; \
	test -n "$$found" || { echo 'Python 3.13 is not here: Django 6.1 is not tested'; exit 0; }; \
	$(MAKE) --no-print-directory $(VENV)/django6/stamps/django6 VENV=$(VENV)/django6 PYTHON=$$found && \
	$(VENV)/django6/bin/python -c 'import django, platform; print("Django", django.__version__, "on Python", platform.python_version())' && \
	$(BYTECODE) $(VENV)/django6/bin/python -m pytest -n $(JOBS) --dist worksteal -m 'long or not long' tests/django

soak: $(STAMPS)/dev ## Run processes on each store under continuous faults, ten minutes each (MINUTES=, STORES=, SEED=)
	@$(BIN)/python -m tests.soak $(if $(MINUTES),--minutes $(MINUTES)) $(if $(STORES),--stores $(STORES)) $(if $(SEED),--seed $(SEED))

check: $(STAMPS)/dev ## Check format, lint, types and import layers
	@$(BIN)/ruff format --check --quiet . || { echo 'run: $(BIN)/ruff format'; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo --no-cache >$(STAMPS)/layers 2>&1 || { cat $(STAMPS)/layers; exit 1; }
	@echo 'format, lint, types and layers: ok'

map: ## Print all modules, each with the first line of its docstring
	@$(PYTHON) -m tests.map

llms: $(STAMPS)/dev ## Write llms.txt and llms-full.txt anew, from the pages in docs
	@$(BIN)/python -m tests.llms

pictures: $(STAMPS)/dev ## Take docs/images/dashboard-*.png anew, of the dashboard at ADDRESS=
	@$(BIN)/python -m tests.dashboard_pictures '$(ADDRESS)'

picture: $(STAMPS)/dev ## Draw docs/images/top.svg anew, from workers that run for a while (SECONDS=)
	@$(BIN)/python -m tests.top_picture $(SECONDS)

bench: $(STAMPS)/bench ## Measure Tenure beside the bare engine and beside other queues
	@$(BIN)/python bench/run.py

clean: ## Remove .venv and everything that tools have left
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage dist tests/bridges/clients/*/node_modules
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The clients of other systems: those of Node in their own folders, those of Python in an environment that Tenure is not in.
CLIENTS := $(VENV)/clients
ifneq ($(shell command -v uv 2>/dev/null),)
INSTALL_CLIENTS = uv venv --quiet --allow-existing --python $(PYTHON) $(CLIENTS) && uv pip install --quiet --python $(CLIENTS)/bin/python
else
INSTALL_CLIENTS = $(PYTHON) -m venv $(CLIENTS) && $(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check
endif

$(STAMPS)/clients: $(STAMPS)/dev $(wildcard tests/bridges/clients/*/package-lock.json) $(wildcard tests/bridges/clients/*/requirements.txt)
	@command -v npm >/dev/null || { echo 'The clients of other systems need Node 18 or newer, with npm: install it'; exit 1; }
	@echo 'Installing the clients of other systems ...'
	@for lock in tests/bridges/clients/*/package-lock.json; do npm ci --silent --no-audit --no-fund --prefix $$(dirname $$lock) || exit 1; done
	@$(INSTALL_CLIENTS) $(foreach file,$(wildcard tests/bridges/clients/*/requirements.txt),-r $(file))
	@mkdir -p $(STAMPS) && touch $@

# One stamp for each set of packages; a larger set serves those who need a smaller one.
$(STAMPS)/run: SERVES := run
$(STAMPS)/dev: EXTRAS := [dev,fast,postgres,prometheus,redis,web]
$(STAMPS)/dev: SERVES := run dev
$(STAMPS)/dev: THEN = $(BIN)/python -m tests.servers.browser; $(BIN)/python -m tests.servers.clients
$(STAMPS)/bench: EXTRAS := [dev,fast,postgres,prometheus,redis,web,bench]
$(STAMPS)/bench: SERVES := run dev bench
$(STAMPS)/bench: THEN = $(BIN)/python -m tests.servers.browser; $(BIN)/python -m tests.servers.clients

# The pinned Django is the last one for Python 3.11.
$(STAMPS)/django6: pyproject.toml constraints.txt
	@echo 'Installing into $(VENV) ...'
	@$(MAKE_VENV)
	@mkdir -p $(STAMPS) && grep -iv '^django==' constraints.txt >$(STAMPS)/constraints
	@$(INSTALL) -c $(STAMPS)/constraints -e '.[dev,fast,postgres,redis]' 'django>=6.1,<6.2'
	@touch $@

$(STAMPS)/%: pyproject.toml constraints.txt
	@test -n '$(PYTHON)' || { echo 'Tenure needs Python 3.11 or newer: install it, or say PYTHON=/path/to/python3.11'; exit 1; }
	@echo 'Installing into $(VENV) ...'
	@$(MAKE_VENV)
	@$(INSTALL) -c constraints.txt -e '.$(EXTRAS)'
	@$(or $(THEN),:)
	@mkdir -p $(STAMPS) && touch $(SERVES:%=$(STAMPS)/%)
