# Everything a newcomer needs: `make demo` and `make test` set themselves up.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
WORKERS ?= 2

.PHONY: demo test check bench soak clean

demo: $(READY)
	$(BIN)/octopia compare examples/fig7b.toml examples/fig7c.toml examples/fig7d.toml

test: check
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -q

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python benchmarks/matching.py
	$(BIN)/python benchmarks/simulator.py

soak: $(READY)
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -q -m soak --timeout 0

$(READY): requirements.lock pyproject.toml setup.py $(wildcard src/octopia/matching/kernel.p*)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "OctopiA needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	touch $@

clean:
	rm -rf $(VENV) build dist out .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
