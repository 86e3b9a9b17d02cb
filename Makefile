# Everything a newcomer needs: `make demo` and `make test` set themselves up.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# Twice the two cores of the smallest machine: many tests wait for other processes.
WORKERS ?= 4
# Modules with C types beside them are compiled.
TYPES  := $(wildcard src/octopia/*/*.pxd)

.PHONY: setup demo test retest check docs bench soak clean

setup: $(READY)

demo: $(READY)
	$(BIN)/octopia demo

test: check
	$(BIN)/pytest -n $(WORKERS) -q

# The tests that failed last time, one after the other. It fails if there are none, such as after a failed check.
retest: $(READY)
	$(BIN)/pytest -q --last-failed --last-failed-no-failures none

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site is built in out/site; any warning is an error. `make test` builds it too.
docs: $(READY)
	$(BIN)/python docs/tools/build.py

bench: $(READY)
	$(BIN)/python benchmarks/matching.py
	$(BIN)/python benchmarks/filters.py
	$(BIN)/python benchmarks/subscribing.py
	$(BIN)/python benchmarks/recovery.py
	$(BIN)/python benchmarks/stalls.py
	$(BIN)/python benchmarks/simulator.py
	$(BIN)/python benchmarks/bursts.py
	$(BIN)/python benchmarks/races.py
	$(BIN)/python benchmarks/slow_links.py
	$(BIN)/python benchmarks/dead_brokers.py
	$(BIN)/python benchmarks/client.py
	$(BIN)/python benchmarks/network.py
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/security.py
	$(BIN)/python benchmarks/operating.py
	$(BIN)/python benchmarks/congestion.py
	$(BIN)/python benchmarks/storm.py
	$(BIN)/python benchmarks/truth.py
	$(BIN)/python benchmarks/pipeline.py --publications 10000 40000 --subscriptions 2000
	$(BIN)/python benchmarks/streams.py

soak: $(READY)
	$(BIN)/pytest -n $(WORKERS) -q -m soak --timeout 0

$(READY): requirements.lock pyproject.toml setup.py $(TYPES) $(wildcard $(TYPES:.pxd=.py))
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "OctopiA needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@$(BIN)/python -c 'from octopia.matching import IS_COMPILED; IS_COMPILED or print("OctopiA: no C compiler was found, so the hot modules run as plain Python: the same answers, slowly.")'
	touch $@

clean:
	rm -rf $(VENV) build dist out .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .cache
