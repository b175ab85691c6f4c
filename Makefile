# make demo   sets up a virtual environment and predicts a real training step, without a GPU
# make test   sets up the same and runs the tests that need no GPU, but for the slow ones
# make test-all   those, too (minutes more)
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
ON     ?= h200

.PHONY: demo test test-all lint types web page clean validate validate-gpu residual validate-published \
        validate-distributed

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev,models]"
	touch $(STAMP)

demo: $(STAMP)
	mkdir -p demo
	$(BIN)/gpuscope predict gpt2 --task train --batch 8 --seq 1024 --on h200 \
	  --report demo/gpt2-on-h200.html --trace demo/gpt2-on-h200.json.gz
	$(BIN)/gpuscope explain matmul 8192 50257 768 --on h200 --quiet --report demo/matmul.html
	$(BIN)/gpuscope learn --quiet --report demo/learn.html
	$(BIN)/gpuscope claims --report demo/claims.html
	@echo
	@echo "Open in a browser:"
	@echo "  demo/gpt2-on-h200.html   the training step, opened"
	@echo "  demo/matmul.html         its largest product, explained"
	@echo "  demo/learn.html          lessons with live figures"
	@echo "  demo/claims.html         what articles say about GPUs, checked"
	@echo "Open in ui.perfetto.dev: demo/gpt2-on-h200.json.gz"

test: $(STAMP) lint types web
	$(BIN)/python -m pytest -m "not gpu and not slow" -n logical --dist loadfile -p no:cacheprovider

test-all: $(STAMP) lint types web
	$(BIN)/python -m pytest -m "not gpu" -n logical --dist loadfile -p no:cacheprovider

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
	$(BIN)/ruff check src tests

types: $(STAMP)
	$(BIN)/mypy --no-error-summary

# On this machine's GPU (make validate-gpu ON=h100): the same kernels and models, measured anew.
validate-gpu: $(STAMP)
	$(BIN)/python validation/held_out_kernels.py validation/results/this-machine/held_out.jsonl.gz
	$(BIN)/python validation/kinds.py --dry --on $(ON) \
	  --recording validation/results/this-machine/held_out.jsonl.gz
	$(BIN)/python validation/gpu.py

# From the recordings, no GPU: kernels that no constant has seen, then whole models and the pages.
validate: $(STAMP)
	$(BIN)/python validation/kinds.py
	$(BIN)/python validation/table.py

# Other people's published runs, predicted anew: docs/published.md.
validate-published: $(STAMP)
	$(BIN)/python -W ignore validation/published/predict_rows.py
	$(BIN)/python validation/published/page.py

# Fits the learned residual of the H200's kernels again, after a kernel model has changed.
residual: $(STAMP)
	$(BIN)/python benchmarks/fit/residual.py

# Distributed steps on two H200s, predicted anew: docs/distributed-accuracy.md.
validate-distributed: $(STAMP)
	$(BIN)/python -W ignore validation/distributed/table.py

clean:
	rm -rf $(VENV) demo web/node_modules web/dist .pytest_cache .mypy_cache .ruff_cache
