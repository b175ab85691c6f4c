"""Which files and functions are JAX's."""

from pathlib import Path

import pytest

from gpuscope.errors import InvalidValueError, WorkloadError
from gpuscope.program.jax.compiling import Target
from gpuscope.program.jax.workload import captured, is_jax_build, is_jax_file, is_jax_step


@pytest.mark.parametrize(
    ("text", "jax"),
    [
        ("import jax", True),
        ("from jax import numpy as jnp", True),
        ("import flax.linen as nn", True),
        ("import jax\nimport torch", False),
        ("import torch", False),
        ("def build(:", False),
    ],
)
def test_a_file_is_told_by_its_imports(tmp_path: Path, text: str, jax: bool) -> None:
    path = tmp_path / "step.py"
    path.write_text(text)
    assert is_jax_file(path) is jax


def test_no_file_is_none_of_jax(tmp_path: Path) -> None:
    assert not is_jax_file(tmp_path / "absent.py")


class Jitted:
    """What `jax.jit` returns, for those who look from outside."""

    __name__ = "step"
    trace = lower = __call__ = lambda self: None


Jitted.__module__ = "jaxlib._jax"


def test_a_jitted_function_needs_its_arguments() -> None:
    assert is_jax_step(Jitted())
    with pytest.raises(InvalidValueError, match="without its arguments"):
        captured(Jitted(), Target(""))


def test_torch_stays_torch() -> None:
    assert not is_jax_build(test_torch_stays_torch)
    assert not is_jax_step(lambda: None)


def test_a_function_that_is_not_jitted_is_refused() -> None:
    pytest.importorskip("jax")
    with pytest.raises(WorkloadError, match="is not jitted"):
        captured((len, ((),)), Target(""))
