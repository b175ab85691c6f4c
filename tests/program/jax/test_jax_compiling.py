"""XLA's compiler runs without a GPU, where its plugin is installed."""

import pytest

import gpuscope as gs
from gpuscope.errors import MissingPackageError, UnsupportedError, WorkloadError
from gpuscope.program.jax import compiling
from gpuscope.program.jax.lowering import Lowered

LOWERED = Lowered("step", b"no module", (), 1, 1)


def test_without_the_plugin_its_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "find_spec", lambda _: None)
    with pytest.raises(MissingPackageError, match=r"jax-cuda13-plugin.*gpuscope\[jax\]"):
        compiling.compiled(LOWERED, compiling.Target(""))


def test_what_xla_refuses_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "find_spec", lambda name: name)
    with pytest.raises(WorkloadError, match="cannot compile step"):
        compiling.compiled(LOWERED, compiling.Target("nothing"))


@pytest.mark.slow
def test_a_product_is_predicted_without_a_gpu() -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("jax_plugins.xla_cuda13")
    shape = jax.ShapeDtypeStruct((4096, 4096), "bfloat16")
    step = jax.jit(lambda a, b: a @ b)
    run = gs.predict((step, (shape, shape)), on="h200")
    assert 2 * 4096**3 / 989e12 < run.device_busy_s < 3 * 2 * 4096**3 / 989e12
    assert run.peak_memory_bytes == pytest.approx(4 * 4096**2 * 2, rel=0.3)
    with pytest.raises(UnsupportedError, match="not predicted"):
        gs.predict((step, (shape, shape)), on="mi300x")
