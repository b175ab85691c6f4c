"""Tracing: weights are never made, arguments keep names, what cannot be is said in a sentence."""

from typing import Any

import pytest

from gpuscope.errors import InvalidValueError, WorkloadError
from gpuscope.program.jax.lowering import lower, lower_build

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")


def test_weights_of_any_size_cost_nothing() -> None:
    def build() -> Any:
        weight = jax.random.normal(jax.random.key(0), (1 << 20, 1 << 20))  # 4 TiB
        step = jax.jit(lambda w, x: x @ w, donate_argnums=0)
        return step, (weight, jnp.ones((1, 1 << 20)))

    found = lower_build(build, 1)
    assert [each.donated for each in found.arguments] == [True, False]
    assert found.results == 1
    assert found.module


def test_arguments_are_named_by_their_path() -> None:
    shape = jax.ShapeDtypeStruct((8, 8), jnp.float32)
    found = lower(jax.jit(lambda s: s["w"] @ s["w"]), ({"w": shape},))
    assert [each.name for each in found.arguments] == ["['w']"]


def test_a_step_that_holds_an_array_is_built_for_real() -> None:
    def build() -> Any:
        mask = jnp.tril(jnp.ones((8, 8)))
        return jax.jit(lambda x: x * mask), (jnp.ones((8, 8)),)

    assert lower_build(build, 1).results == 1


@pytest.mark.parametrize("made", [None, 3, (1, 2, 3)])
def test_a_build_returns_a_pair(made: Any) -> None:
    with pytest.raises(WorkloadError, match="must return a jitted function"):
        lower_build(lambda: made, 1)


def test_arguments_may_not_be_left_out() -> None:
    with pytest.raises(WorkloadError, match="without arguments"):
        lower_build(lambda: jax.jit(lambda x: x), 1)


def test_shapes_that_do_not_fit_are_said() -> None:
    with pytest.raises(WorkloadError, match="Tracing"):
        lower(jax.jit(lambda a, b: a @ b), (jnp.ones((2, 3)), jnp.ones((2, 3))))


def test_more_devices_than_there_are() -> None:
    with pytest.raises(InvalidValueError, match="devices"):
        lower_build(lambda: None, 4096)
