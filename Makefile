# make demo   sets up a small virtual environment and predicts a real training step, without a GPU
# make test   sets up the one for development and runs the tests that need no GPU, but for the slow ones
# make test-all   those, too (minutes more)
# make check ROOM=cost   lint, types and tests of one room, in seconds (see CONTRIBUTING.md)
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
ON     ?= h200
ROOM   ?= cost
# The demo takes the environment for development where it is set up, else a smaller one of its own.
DEMO   := $(if $(wildcard $(STAMP)),$(VENV),$(VENV)-demo)

.PHONY: site dist checked compiled validate-serving validate-plan demo test test-all test-lowest audit check lint types web page clean validate validate-gpu residual validate-published \
        validate-distributed coverage

$(STAMP): pyproject.toml constraints.txt
	@PYTHON=$(PYTHON) sh tools/setup.sh dev $(VENV)

$(VENV)-demo/.ready: pyproject.toml constraints.txt
	@PYTHON=$(PYTHON) sh tools/setup.sh demo $(VENV)-demo

demo: $(DEMO)/.ready
	mkdir -p demo
	$(DEMO)/bin/gpuscope predict gpt2 --task train --batch 8 --seq 1024 --from-host --on h200 \
	  --report demo/gpt2-on-h200.html --trace demo/gpt2-on-h200.json.gz
	$(DEMO)/bin/gpuscope explain matmul 8192 50257 768 --on h200 --quiet --report demo/matmul.html
	$(DEMO)/bin/gpuscope learn --quiet --report demo/learn.html
	$(DEMO)/bin/gpuscope claims --report demo/claims.html
	@echo
	@echo "Open in a browser:"
	@echo "  demo/gpt2-on-h200.html   the training step, opened"
	@echo "  demo/matmul.html         its largest product, explained"
	@echo "  demo/learn.html          lessons with live figures"
	@echo "  demo/claims.html         what articles say about GPUs, checked"
	@echo "Open in ui.perfetto.dev: demo/gpt2-on-h200.json.gz"

# Tests start hundreds of processes: their modules are compiled once, as installed ones are.
compiled: $(STAMP)
	$(BIN)/python -m compileall -q src/gpuscope

# What needs one core each stands beside each other: types and the page.
checked: $(STAMP)
	@$(MAKE) --no-print-directory -j 2 lint types web

test: checked compiled
	$(BIN)/python -m pytest -m "not gpu and not slow" -n logical --dist loadfile -p no:cacheprovider

test-all: checked compiled
	$(BIN)/python -m pytest -m "not gpu" -n logical --dist loadfile -p no:cacheprovider

# The lowest versions that pyproject.toml allows, in an environment of their own.
test-lowest:
	PYTHON=$(PYTHON) sh tools/lowest.sh $(VENV)-lowest

# The documentation as a site, in build/site; its live pages are made anew (half a minute).
site: $(STAMP)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[docs,models]"
	$(BIN)/python -m mkdocs build --strict

# What an index would be given, in dist/.
dist: $(STAMP)
	rm -rf dist
	$(BIN)/python -m pip install --quiet build twine
	$(BIN)/python -m build --quiet
	$(BIN)/python -m twine check --strict dist/*

# Known holes in what is installed; asks the index' database.
audit: $(STAMP)
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/pip-audit --skip-editable

# One room, also a part of one (ROOM=measurement/bench): its lint, types and tests.
check: $(STAMP)
	$(BIN)/ruff check --quiet src/gpuscope/$(ROOM) tests/$(ROOM)
	$(BIN)/ruff format --check --quiet src/gpuscope/$(ROOM) tests/$(ROOM)
	$(BIN)/mypy --no-error-summary src/gpuscope/$(ROOM)
	$(BIN)/python -m pytest -m "not gpu and not slow" -n logical --dist loadfile -p no:cacheprovider \
	  tests/$(ROOM)

# The report's page: typed, tested, and the shipped file is the build of its sources.
web:
	@if command -v npm >/dev/null; then \
	  cd web && npm ci --silent --no-audit --no-fund && npm run --silent check \
	  && npm run --silent test && npm run --silent shipped; \
	else echo "npm is not installed: the page in web/ is not checked."; fi

# Builds the page and ships it in the package; needs Node.js.
page:
	cd web && npm ci --silent --no-audit --no-fund && npm run --silent build

lint: $(STAMP)
	$(BIN)/ruff check src tests tools hatch_build.py
	$(BIN)/ruff format --check --quiet src tests tools hatch_build.py benchmarks validation

types: $(STAMP)
	$(BIN)/mypy --no-error-summary

# On this machine's GPU (make validate-gpu ON=h100): the same kernels and models, measured anew.
validate-gpu: $(STAMP)
	$(BIN)/python validation/held_out_kernels.py validation/results/this-machine/held_out.jsonl.gz
	$(BIN)/python validation/kinds.py --dry --on $(ON) \
	  --recording validation/results/this-machine/held_out.jsonl.gz
	$(BIN)/python validation/gpu.py

# From the recordings, no GPU: kernels that no constant has seen, then whole models and the pages.
# Serving points that others measured (POINTS: their CSV; LLMSERVINGSIM: a copy of that repository;
# neither is part of this project), and the recorded runs of vLLM; no GPU.
validate-serving: $(STAMP)
	$(if $(POINTS),$(BIN)/python validation/serving.py $(POINTS) --write)
	$(if $(LLMSERVINGSIM),$(BIN)/python validation/scheduler_alone.py $(LLMSERVINGSIM) --write)
	$(BIN)/python validation/served_requests.py --write

validate: $(STAMP)
	$(BIN)/python validation/kinds.py
	$(BIN)/python -m benchmarks.harvest.judge --share 8
	$(BIN)/python validation/unseen.py judge
	$(BIN)/python validation/table.py
	$(BIN)/python validation/hosts.py

# Programs of the world: captured, predicted, held against a real run on the CPU; docs/coverage.md.
# Goes on where it stopped. Families whose libraries are not installed are left out.
coverage: $(STAMP)
	HF_HUB_OFFLINE=1 PYTHONPATH=src:. $(BIN)/python -m validation.corpus

# Other people's published runs, predicted anew: docs/published.md.
validate-published: $(STAMP)
	$(BIN)/python -W ignore validation/published/predict_rows.py
	$(BIN)/python validation/published/page.py
	$(BIN)/python validation/plan_choice.py

# What `plan` would have chosen among the published runs, and every target with what was reached:
# docs/plan-accuracy.md; composed steps held against simulated ones as they are kept (without `--kept`
# anew: minutes; likewise how long questions take: `validation/plan_speed.py measure`). Seconds.
validate-plan: $(STAMP)
	$(BIN)/python validation/plan_choice.py
	$(BIN)/python validation/plan_composed.py --kept

# Fits the learned residual of the H200's kernels again, after a kernel model has changed.
residual: $(STAMP)
	$(BIN)/python benchmarks/fit/residual.py

# Distributed steps on two H200s, predicted anew: docs/distributed-accuracy.md.
validate-distributed: $(STAMP)
	$(BIN)/python -W ignore validation/distributed/table.py

clean:
	rm -rf $(VENV) $(VENV)-demo $(VENV)-lowest demo web/node_modules web/dist .pytest_cache .mypy_cache .ruff_cache
