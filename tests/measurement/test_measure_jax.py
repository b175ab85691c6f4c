"""JAX steps really run, on the processor."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from gpuscope.errors import InvalidValueError, UnsupportedError, WorkloadError
from gpuscope.measurement.run import measure

pytestmark = pytest.mark.skipif(find_spec("jax") is None, reason="needs jax")

TRAIN = """
import jax, jax.numpy as jnp
from functools import partial

def build():
    w, x = jnp.ones((64, 64)), jnp.ones((8, 64))

    @partial(jax.jit, donate_argnums=0)
    def step(w, x):
        loss, g = jax.value_and_grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
        return w - 0.1 * g, loss

    return step, (w, x)
"""


def fed(function: Any, *arguments: Any) -> Any:
    from gpuscope.measurement.jax.fed import FedStep

    return FedStep(function, arguments)


def test_a_file_s_step_is_timed_and_recorded(tmp_path: Path) -> None:
    path = tmp_path / "train_jax.py"
    path.write_text(TRAIN)
    run = measure(f"{path}:build", on="cpu", seconds=0.2)
    assert run.origin == "measured"
    assert run.step_time_s > 0
    low, high = run.step_time_interval_s
    assert low <= run.step_time_s <= high
    assert run.measurement is not None
    assert "jax" in run.measurement.machine
    assert "torch" not in run.measurement.machine
    # The products of a step are in the timeline, and no more than the step is busy.
    assert len(run.timeline.steps) == 3
    assert 0 < run.device_busy_s <= run.step_time_s
    assert run.peak_memory_bytes is None  # a processor's is not counted


def test_a_pair_is_measured_as_it_is() -> None:
    import jax

    def double(x: Any) -> Any:
        return x * 2

    run = measure((jax.jit(double), (jax.numpy.ones(8),)), on="cpu", seconds=0.1, profile=False)
    assert run.name == "double"
    assert run.step_time_s > 0


def test_donated_arguments_are_fed_back() -> None:
    import jax

    step = fed(jax.jit(lambda n, x: (n + 1, x), donate_argnums=0), jax.numpy.zeros(()), 5.0)
    for _ in range(3):
        step()
    step.wait()
    assert float(step()[0]) == 4


def test_a_result_of_the_donated_form_is_the_next_argument() -> None:
    import jax

    step = fed(jax.jit(lambda s: (s[0] + 1, s[1] * 2), donate_argnums=0),
               (jax.numpy.zeros(()), jax.numpy.ones(())))  # fmt: skip
    step()
    assert [float(each) for each in step()] == [2, 4]


def test_nothing_donated_is_called_alike() -> None:
    import jax

    step = fed(jax.jit(lambda x: x + 1), jax.numpy.zeros(()))
    step()
    assert float(step()) == 1


@pytest.mark.filterwarnings("ignore:Some donated buffers")
def test_donated_without_a_successor_is_refused() -> None:
    import jax

    step = fed(jax.jit(lambda a, b: a.sum() + b, donate_argnums=0), jax.numpy.ones(3), 1.0)
    with pytest.raises(WorkloadError, match="called twice"):
        step()


def test_shapes_alone_are_enough() -> None:
    import jax

    shape = jax.ShapeDtypeStruct((4, 4), jax.numpy.bfloat16)
    assert fed(jax.jit(lambda x: x @ x), shape)().shape == (4, 4)


def test_what_is_not_jitted_is_refused() -> None:
    with pytest.raises(WorkloadError, match="not jitted"):
        fed(lambda x: x, 1.0)


@pytest.mark.parametrize(
    ("asked", "error"), [("tpu", InvalidValueError), ("cpu:9", InvalidValueError)]
)
def test_devices_that_are_not_there(asked: str, error: type[Exception]) -> None:
    from gpuscope.measurement.jax.device import choose_jax_device

    with pytest.raises(error):
        choose_jax_device(asked)


def test_without_a_gpu_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax

    from gpuscope.measurement.jax.device import choose_jax_device

    def none(kind: str) -> Any:
        raise RuntimeError(f"Unknown backend: '{kind}'")

    monkeypatch.setattr(jax, "devices", none)
    with pytest.raises(UnsupportedError, match="no GPU that JAX can use"):
        choose_jax_device()


class _Compiled:
    def __init__(self, temp: int) -> None:
        self.temp_size_in_bytes = temp

    def memory_analysis(self) -> _Compiled:
        return self


class _Device:
    def __init__(self, peak: int, held: int) -> None:
        self.peak, self.held = peak, held

    def peak_allocated_bytes(self) -> int:
        return self.peak

    def allocated_bytes(self) -> int:
        return self.held


@pytest.mark.parametrize(
    ("trials", "peak", "expected", "notes"), [(50, 90, 90, 0), (90, 90, 60, 1)]
)
def test_the_peak_is_the_step_s_own(trials: int, peak: int, expected: int, notes: int) -> None:
    """What XLA's trials held while it compiled is no part of it."""
    from gpuscope.measurement.assemble import Findings
    from gpuscope.measurement.jax.measuring import _peak

    found = Findings()
    device: Any = _Device(peak, 40)
    assert _peak(device, _Compiled(20), trials, found) == expected
    assert len(found.notes) == notes
