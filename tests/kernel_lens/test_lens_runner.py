"""Wrong input: what is said, and that it is never a traceback."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from lens_examples import EXAMPLES, needs_numba

import gpuscope as gs
from gpuscope.errors import (
    InputFileError,
    InvalidValueError,
    MissingPackageError,
    UnknownNameError,
    WorkloadError,
)
from gpuscope.kernel_lens.runner import look
from gpuscope.kernel_lens.worker import _failure


def _file(tmp_path, text):
    file = tmp_path / "given.py"
    file.write_text(text)
    return file


def test_the_error_inside_tritons_is_told(monkeypatch):
    class InterpreterError(Exception):
        pass

    wrapped = InterpreterError("in the interpreter")
    wrapped.__cause__ = ZeroDivisionError("of the user")
    assert _failure("run", wrapped).kind == "InterpreterError"  # somebody else's class of that name
    errors = SimpleNamespace(InterpreterError=InterpreterError)
    monkeypatch.setitem(sys.modules, "triton.runtime.errors", errors)
    assert _failure("run", wrapped).kind == "ZeroDivisionError"


def test_no_file():
    with pytest.raises(InputFileError, match=r"There is no file nowhere\.py"):
        look("nowhere.py:launch")


def test_not_python(tmp_path):
    with pytest.raises(InputFileError, match="not valid Python"):
        look(str(_file(tmp_path, "def launch(:")))


def test_no_such_function(tmp_path):
    file = _file(tmp_path, "def start():\n    pass\n")
    with pytest.raises(WorkloadError, match=r"has no function 'launch'\. It has: start"):
        look(str(file))
    with pytest.raises(WorkloadError, match="has no function 'go'"):
        look(f"{file}:go")


def test_nothing_launched(tmp_path):
    with pytest.raises(WorkloadError, match="launched no kernel"):
        look(str(_file(tmp_path, "def launch():\n    pass\n")))


def test_unknown_device_and_limit(tmp_path):
    file = str(_file(tmp_path, "def launch():\n    pass\n"))
    with pytest.raises(UnknownNameError):
        look(file, "h2oo")
    with pytest.raises(InvalidValueError, match="must be positive"):
        look(file, limit=0)


def test_what_the_code_raises_names_its_line(tmp_path):
    file = _file(tmp_path, "def launch():\n    x = 1\n    return x / 0\n")
    with pytest.raises(WorkloadError, match=r"raised ZeroDivisionError at line 3 of given\.py"):
        look(str(file))


def test_what_the_import_raises(tmp_path):
    file = _file(tmp_path, "raise ValueError('not\\nyet')\ndef launch():\n    pass\n")
    with pytest.raises(WorkloadError, match="Importing the file") as caught:
        look(str(file))
    assert caught.value.why == "not yet"


def test_a_missing_package(tmp_path):
    with pytest.raises(WorkloadError, match="Install the package 'no_such_thing'"):
        look(str(_file(tmp_path, "import no_such_thing\ndef launch():\n    pass\n")))


def test_a_missing_simulator(tmp_path):
    """As where Numba is not installed: the import of that name fails."""
    file = _file(
        tmp_path,
        "raise ModuleNotFoundError(\"No module named 'numba'\", name='numba')\n"
        "def launch():\n    pass\n",
    )
    with pytest.raises(MissingPackageError, match=r"gpuscope\[lens\]"):
        look(str(file))


def test_a_process_that_dies(tmp_path):
    file = _file(tmp_path, "import os\ndef launch():\n    print('at the end')\n    os.abort()\n")
    with pytest.raises(WorkloadError, match="ended the process") as caught:
        look(str(file))
    assert "SIGABRT" in caught.value.what


def test_exit_is_told(tmp_path):
    with pytest.raises(WorkloadError, match="SystemExit"):
        look(str(_file(tmp_path, "def launch():\n    raise SystemExit(3)\n")))


def test_a_function_without_a_file():
    namespace: dict = {}
    exec("def launch():\n    pass", namespace)
    with pytest.raises(InvalidValueError, match="top level of a file"):
        look(namespace["launch"])
    with pytest.raises(InvalidValueError, match="top level of a file"):
        look(lambda: None)


def test_looking_while_imported(tmp_path):
    file = _file(tmp_path, "import gpuscope as gs\ndef launch():\n    pass\ngs.lens(launch)\n")
    with pytest.raises(WorkloadError, match="while it is imported"):
        look(str(file))


@needs_numba
def test_a_function_is_run_like_its_name(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_kernels.py").write_text(
        (EXAMPLES / "branches.py").read_text() + "\n    print('well', 'done')\n"
    )
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    import own_kernels

    lens = gs.lens(own_kernels.launch, on="a100")
    assert [one.kernel for one in lens.launches] == ["by_lane", "by_warp", "by_loop"]
    assert lens.printed == "well done\n"
    assert "A100" in lens.machine.name
    sys.modules.pop("own_kernels")


@needs_numba
def test_a_file_named_like_a_library_module(tmp_path, monkeypatch):
    (tmp_path / "copy.py").write_text((EXAMPLES / "branches.py").read_text())
    monkeypatch.chdir(tmp_path)
    assert len(look("copy.py").launches) == 3


@needs_numba
def test_a_grid_without_blocks(tmp_path):
    file = _file(
        tmp_path,
        "import numpy as np\nfrom numba import cuda\n@cuda.jit\ndef k(x):\n    x[0] = 1\n"
        "def launch():\n    k[0, 32](np.zeros(20))\n",
    )
    explanation = look(str(file)).explanation()
    assert list(explanation.summary) == [
        "k: the grid has no block, so nothing ran; a device refuses it."
    ]


@needs_numba
def test_outside_an_array(tmp_path):
    file = _file(
        tmp_path,
        "import numpy as np\nfrom numba import cuda\n@cuda.jit\ndef k(x):\n"
        "    x[cuda.grid(1)] = 1\ndef launch():\n    k[1, 32](np.zeros(20))\n",
    )
    with pytest.raises(WorkloadError, match="IndexError at line 5") as caught:
        look(str(file))
    assert "add a guard" in caught.value.next_step


@needs_numba
def test_what_the_simulator_does_not_know(tmp_path):
    file = _file(
        tmp_path,
        "import numpy as np\nfrom numba import cuda\n@cuda.jit\ndef k(x):\n"
        "    cuda.shfl_sync(-1, 1, 0)\ndef launch():\n    k[1, 32](np.zeros(32))\n",
    )
    with pytest.raises(WorkloadError, match="AttributeError at line 5") as caught:
        look(str(file))
    assert "does not know this function" in caught.value.next_step
