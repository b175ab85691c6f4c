#!/bin/sh
# Installs gpuscope with the lowest versions that pyproject.toml allows, and runs tests on them:
#
#   sh tools/lowest.sh FOLDER     FOLDER: a virtual environment, made anew
#
# Of PyTorch only the CPU build of the lowest version is taken, from PyTorch's own index. Where that
# cannot be had, what needs no PyTorch is tested, and it says so.
set -eu
cd "$(dirname "$0")/.."
folder=$1
PYTHON=${PYTHON:-python3}
CPU_INDEX=https://download.pytorch.org/whl/cpu
extras=figures,watch,exporter,nvidia,parquet
rm -rf "$folder"
"$PYTHON" -m venv "$folder"
python="$folder/bin/python"
"$python" tools/lowest.py $(echo "$extras" | tr , ' ') >"$folder/constraints.txt"
"$python" -m pip install --quiet -c "$folder/constraints.txt" -e ".[$extras]" \
  pytest hypothesis pytest-xdist babel pyte pexpect pyyaml
models=$("$python" tools/lowest.py models | grep '^torch==\|^transformers==')
tests="tests/document tests/hardware tests/watch tests/loading tests/test_atomic.py tests/cli/test_speech.py"
if "$python" -m pip install --quiet --retries 1 --timeout 15 --no-deps --index-url "$CPU_INDEX" \
  "$(echo "$models" | grep '^torch==')" 2>"$folder/pip.log" &&
  "$python" -m pip install --quiet -c "$folder/constraints.txt" $models; then
  tests="$tests tests/program tests/cost tests/cli"
else
  echo "The CPU build of PyTorch cannot be had: what needs none is tested."
fi
"$python" -m pip check
"$python" -m pip list --format freeze
"$python" -m pytest -m "not gpu and not slow" -n logical --dist loadfile -p no:cacheprovider $tests
