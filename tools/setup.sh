#!/bin/sh
# Sets up a virtual environment: sh tools/setup.sh demo|dev FOLDER
#
#   demo  what `make demo` needs: gpuscope, PyTorch, transformers. A PyTorch that $PYTHON has is used.
#   dev   that, and everything that lint, types and tests need; on its own.
#
# Of PyTorch the CPU build is taken (for dev on a machine with an NVIDIA GPU the one with CUDA). With uv
# the choice is one option. Before pip downloads gigabytes, it says so.
set -eu
cd "$(dirname "$0")/.."
kind=$1 folder=$2
PYTHON=${PYTHON:-python3}
WAIT_S=${WAIT_S:-10} # to read a warning, and stop
CPU_INDEX=https://download.pytorch.org/whl/cpu
python="$folder/bin/python"

case $kind in
demo) goal=demo extras=models backend=cpu ;;
dev)
  goal=test extras=dev,models backend=cpu
  if command -v nvidia-smi >/dev/null; then backend=auto; fi
  ;;
*)
  echo "sh tools/setup.sh demo|dev FOLDER" >&2
  exit 2
  ;;
esac

"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "Python 3.11 or later is needed. Type: make $goal PYTHON=python3.12" >&2
  exit 2
}

# The version of the PyTorch that $PYTHON has; nothing for none, or one that is too old.
torch_there() {
  "$PYTHON" - <<'END'
from importlib.metadata import PackageNotFoundError, version
try:
    found = version("torch")
    print(found if tuple(map(int, found.split(".")[:2])) >= (2, 6) else "")
except PackageNotFoundError:
    pass
END
}

use_torch_there() {
  echo "PyTorch $1 of $PYTHON is used; nothing of it is downloaded."
  "$PYTHON" -m venv --system-site-packages "$folder"
  # In a virtual environment of the user's own, the system's packages are not all there is.
  "$PYTHON" - "$folder" <<'END'
import site, sys
from pathlib import Path
if sys.prefix != sys.base_prefix:
    (packages,) = Path(sys.argv[1]).glob("lib/python*/site-packages")
    (packages / "outer.pth").write_text("\n".join(site.getsitepackages()) + "\n")
END
  { echo "torch==$1"; grep -v '^torch==' constraints.txt; } >"$folder/constraints.txt"
  "$python" -m pip install --quiet -c "$folder/constraints.txt" -e ".[$extras]"
}

# Whether the PyTorch that pip would take brings CUDA's libraries.
heavy() {
  [ "$(uname -s)" = Linux ] &&
    "$python" -m pip install --quiet --dry-run --ignore-installed --no-deps --report - \
      -c constraints.txt torch | grep -q '"nvidia-'
}

install_with_uv() {
  command -v uv >/dev/null || return 1
  echo "uv installs what is needed, and the build of PyTorch for: $backend ..."
  uv pip install --quiet --python "$python" --torch-backend "$backend" -c constraints.txt -e ".[$extras]"
}

# The CPU build from PyTorch's own index; elsewhere than on Linux every build is one.
cpu_build() {
  [ "$backend" = cpu ] || return 1
  [ "$(uname -s)" = Linux ] || return 0
  echo "pip installs the CPU build of PyTorch, about 200 MB, from $CPU_INDEX ..."
  "$python" -m pip install --quiet --retries 1 --timeout 15 --no-deps \
    -c constraints.txt --index-url "$CPU_INDEX" torch 2>"$folder/pip.log"
}

install_with_pip() {
  if ! cpu_build; then
    echo "It cannot be. What pip would take instead is looked up ..."
    if heavy; then
      cat <<END
It comes with CUDA's libraries: about 3 GB to download, more than twice that on the disk.
To avoid it (a CPU build is enough to predict), stop this with Ctrl-C, then
  install uv, which can choose the build, and type make $goal again; or
  type make $goal PYTHON=python, with a python that has PyTorch: pip install torch --index-url $CPU_INDEX
It goes on in $WAIT_S seconds.
END
      sleep "$WAIT_S"
    fi
  fi
  echo "pip installs what else is needed ..."
  "$python" -m pip install --quiet -c constraints.txt -e ".[$extras]"
}

there=
if [ "$kind" = demo ]; then there=$(torch_there); fi
if [ -n "$there" ]; then
  use_torch_there "$there"
else
  "$PYTHON" -m venv "$folder"
  install_with_uv || install_with_pip
fi
touch "$folder/.ready"
