"""Two devices: data parallel (by the compiler, and by hand), tensor parallel, fully sharded."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from parts import Program, adam, adam_state, made, tokens, trained
from transformer import Size, loss, parameters

DEVICES = 2

SIZE = Size(layers=6, width=1024, heads=16, batch=8, length=512)


def _mesh() -> Mesh:
    return Mesh(np.array(jax.devices()[:2]), ("d",))


def _state_shape() -> Any:
    return jax.eval_shape(lambda: adam_state(parameters(SIZE)))


def _sharded(place: Any, batch: Any) -> Program:
    """A step whose state lies as `place(path, leaf)` says, its batch as `batch`."""
    mesh = _mesh()
    state = jax.tree_util.tree_map_with_path(
        lambda path, leaf: NamedSharding(mesh, place(path, leaf)), _state_shape()
    )
    ids = NamedSharding(mesh, batch)
    step = trained(
        partial(loss, SIZE),
        in_shardings=(state, ids),
        out_shardings=(state, NamedSharding(mesh, P())),
    )
    return step, made(
        lambda: adam_state(parameters(SIZE)),
        lambda: tokens((SIZE.batch, SIZE.length), SIZE.vocabulary),
        shardings=(state, ids),
    )


def data() -> Program:
    """The batch split, every device with the whole model: XLA sums the gradients."""
    return _sharded(lambda path, leaf: P(), P("d"))


def _split_width(path: Any, leaf: Any) -> P:
    name = str(getattr(path[-1], "key", ""))
    if name in ("qkv", "up"):
        return P(None, "d")
    return P("d", None) if name in ("out", "down", "embedding") else P()


def tensor() -> Program:
    """Each layer's products split over the devices (Megatron's way), the batch whole."""
    return _sharded(_split_width, P())


def _split_first(path: Any, leaf: Any) -> P:
    return P("d") if leaf.ndim > 1 and leaf.shape[0] % 2 == 0 else P()


def fully() -> Program:
    """Parameters, gradients and optimizer split (FSDP), the batch, too."""
    return _sharded(_split_first, P("d"))


def by_hand() -> Program:
    """Data parallel in a `shard_map` with an explicit mean of the gradients."""
    mesh = _mesh()

    def local(state: Any, ids: jax.Array) -> tuple[Any, jax.Array]:
        found, gradients = jax.value_and_grad(partial(loss, SIZE))(state[0], ids)
        gradients = jax.lax.pmean(gradients, "d")
        return adam(state, gradients), jax.lax.pmean(found, "d")

    whole, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("d"))
    mapped = jax.shard_map(
        local, mesh=mesh, in_specs=(P(), P("d")), out_specs=(P(), P()), check_vma=False
    )
    step = jax.jit(mapped, donate_argnums=0, in_shardings=(whole, split))
    return step, made(
        lambda: adam_state(parameters(SIZE)),
        lambda: tokens((SIZE.batch, SIZE.length), SIZE.vocabulary),
        shardings=(whole, split),
    )
