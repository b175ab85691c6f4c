"""Recomputation of a live model's blocks: what is kept for the backward pass, and what is not.

`torch.utils.checkpoint` without reentrance keeps a block's inputs and runs the block again when its
backward pass needs what was not kept. With a policy ("selective activation checkpointing",
`torch.utils.checkpoint.create_selective_checkpoint_contexts`), results that are dear to compute
are kept and only cheap ones are computed again.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from gpuscope.advice.changes.hooks.root_modules import unwrapped
from gpuscope.advice.changes.transforms.repeated_blocks import repeated_blocks
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError

__all__ = ["KEPT", "keeps_products", "recompute_blocks", "without_cache"]

KEPT = frozenset(
    {
        "mm",
        "addmm",
        "bmm",
        "baddbmm",
        "convolution",
        "attention",
        "attention_backward",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_flash_attention_for_cpu",
        "_flash_attention_forward",
        "_scaled_mm",
        "_grouped_mm",
    }
)
"""Operators whose results a selective recomputation keeps: those that compute much for the bytes
that they write."""

Contexts = Callable[[], tuple[Any, Any]]


def recompute_blocks(model: Any, *, every: int = 1, keep_products: bool = False) -> int:
    """Have blocks of a model run again in its backward pass, in place.

    A model of transformers, also one that another module holds (DDP), is told by its own
    `gradient_checkpointing_enable`, which also keeps its cache out of the way; of any other the
    blocks' `forward` is wrapped.

    Args:
        model: a `torch.nn.Module`.
        every: 1 for all blocks, 2 for every other one, ...
        keep_products: keep the results of `KEPT`.

    Returns:
        How many blocks are recomputed.

    Raises:
        UnsupportedError: it has no repeated blocks.
    """
    blocks = repeated_blocks(model)
    if not blocks:
        raise UnsupportedError(
            Text("{name} has no repeated blocks.", name=type(model).__name__),
            Text("What to run again is chosen by block."),
            Text("Wrap parts of it by hand."),
        )
    hosts = _of_transformers(model)
    if hosts:
        return sum(_tell_transformers(host, every, keep_products) for host in hosts)
    for block in blocks[::every]:
        contexts = _contexts(block, keep_products)
        block.forward = _recomputed(block, contexts)
    return len(blocks[::every])


def keeps_products(_context: Any, operator: Any, *_: Any, **__: Any) -> Any:
    """Policy of selective recomputation: keep what is dear to compute (see `KEPT`)."""
    from torch.utils.checkpoint import CheckpointPolicy

    if operator.overloadpacket.__name__ in KEPT:
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


def _recomputed(block: Any, contexts: Contexts | None) -> Callable[..., Any]:
    from torch.utils.checkpoint import checkpoint

    original = block.forward
    more: dict[str, Any] = {} if contexts is None else {"context_fn": contexts}

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        import torch

        if not block.training or not torch.is_grad_enabled():
            return original(*args, **kwargs)
        return checkpoint(original, *args, use_reentrant=False, **more, **kwargs)

    return forward


# -- models of transformers ------------------------------------------------------------------------


def _of_transformers(module: Any) -> list[Any]:
    """Models that know how to recompute their own layers: this one, or those that it holds."""
    if getattr(module, "supports_gradient_checkpointing", False) and _layers(module):
        return [module]
    return [host for child in module.children() for host in _of_transformers(child)]


def _layers(model: Any) -> list[Any]:
    """Layers that transformers can recompute."""
    return [
        m for m in model.modules() if type(m).__mro__[1].__name__ == "GradientCheckpointingLayer"
    ]


def _tell_transformers(model: Any, every: int, keep_products: bool) -> int:
    """Have a model recompute; how many layers do."""
    layers = _layers(model)
    known: dict[str, Any] = {"use_reentrant": False}
    if keep_products:
        known["context_fn"] = _selective
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=known)
    for at, layer in enumerate(layers):
        if at % every:
            layer.gradient_checkpointing = False
    return len(layers[::every])


def without_cache(model: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    """A model's call that asks for no key-value cache while transformers recomputes.

    It would make none either, but warns of that, and a warning breaks a compiled graph. Exact.

    Args:
        model: any root module; one that is not of transformers is called as it was.
        call: how it is called.
    """
    host = unwrapped(model)
    if not hasattr(host, "is_gradient_checkpointing") or not _takes_use_cache(host):
        return call

    @functools.wraps(call)
    def called(*args: Any, **kwargs: Any) -> Any:
        # Given by place, it could not be given by name once more.
        if host.training and host.is_gradient_checkpointing and len(args) < 3:
            kwargs["use_cache"] = False
        return call(*args, **kwargs)

    return called


def _takes_use_cache(model: Any) -> bool:
    names = list(inspect.signature(model.forward).parameters)
    return "use_cache" in names and names.index("use_cache") >= 3


# -- what is entered around a block's two runs ---------------------------------------------------


def _contexts(block: Any, keep_products: bool) -> Contexts | None:
    norms = _running_statistics(block)
    if not norms:
        return _selective if keep_products else None
    return functools.partial(_without_statistics, norms, keep_products)


def _selective() -> tuple[Any, Any]:
    from torch.utils.checkpoint import create_selective_checkpoint_contexts

    make: Any = create_selective_checkpoint_contexts  # untyped in torch
    first, second = make(keeps_products)
    return first, second


def _running_statistics(block: Any) -> list[Any]:
    """Batch norms of a block that gather statistics as they go."""
    import torch

    return [
        m
        for m in block.modules()
        if isinstance(m, torch.nn.modules.batchnorm._BatchNorm) and m.track_running_stats
    ]


def _without_statistics(norms: Sequence[Any], keep_products: bool) -> tuple[Any, Any]:
    """Contexts for the two runs: the second one must not count the batch again."""
    from contextlib import nullcontext

    first, second = _selective() if keep_products else (nullcontext(), nullcontext())
    return first, _Both(second, _unmoved(norms))


class _Both:
    """Two contexts as one."""

    def __init__(self, *contexts: Any) -> None:
        self._contexts = contexts

    def __enter__(self) -> None:
        with ExitStack() as stack:
            for context in self._contexts:
                stack.enter_context(context)
            self._entered = stack.pop_all()

    def __exit__(self, *error: Any) -> None:
        self._entered.__exit__(*error)


@contextmanager
def _unmoved(norms: Sequence[Any]) -> Iterator[None]:
    """Batch norms that use the batch's statistics and leave the running ones as they are."""
    before = [(norm, norm.momentum, norm.num_batches_tracked) for norm in norms]
    for norm in norms:
        # A momentum of 0 keeps running = 1 x running + 0 x batch.
        norm.momentum, norm.num_batches_tracked = 0.0, None
    try:
        yield
    finally:
        for norm, momentum, count in before:
            norm.momentum, norm.num_batches_tracked = momentum, count
