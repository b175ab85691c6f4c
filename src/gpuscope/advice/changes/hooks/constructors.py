"""Constructors of torch, watched: optimizers, loaders and distributed wrappers.

Keywords can be edited before an object is made, and the object be seen once it is.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gpuscope.advice.changes.hooks.replaced_names import Replaced

__all__ = ["watch_constructor", "watch_loaders", "watch_optimizers", "watch_wrappers"]

Begins = Callable[[type, dict[str, Any]], None]
Made = Callable[[Any, dict[str, Any]], None]

_WRAPPERS = {
    "ddp": ("torch.nn.parallel", "DistributedDataParallel"),
    "fsdp1": ("torch.distributed.fsdp", "FullyShardedDataParallel"),
}


def watch_constructor(replaced: Replaced, cls: Any, begins: Begins, made: Made) -> None:
    """Have `begins` edit the keywords and `made` see the object, for this very class."""
    original = cls.__init__
    signature = inspect.signature(original)
    rest = next((p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD), "")

    @functools.wraps(original)
    def construct(this: Any, *args: Any, **kwargs: Any) -> None:
        if type(this) is not cls:  # a subclass, which has been here already or is the user's
            original(this, *args, **kwargs)
            return
        try:
            bound = signature.bind(this, *args, **kwargs)
        except TypeError:
            original(this, *args, **kwargs)  # says what is wrong in torch's own words
            return
        names = list(bound.arguments)
        keywords = dict(bound.arguments)
        keywords.pop(names[0])
        keywords.update(keywords.pop(rest, {}))
        begins(cls, keywords)
        original(this, **keywords)
        made(this, keywords)

    replaced.set(cls, "__init__", construct)


def watch_optimizers(replaced: Replaced, begins: Begins, made: Made) -> None:
    """Every optimizer of `torch.optim`."""
    import torch

    base = torch.optim.Optimizer
    for value in vars(torch.optim).values():
        if isinstance(value, type) and issubclass(value, base) and value is not base:
            watch_constructor(replaced, value, begins, made)


def watch_loaders(
    replaced: Replaced,
    edits: Sequence[Callable[[dict[str, Any]], None]],
    wraps: Sequence[Callable[[Iterator[Any]], Iterator[Any]]],
    made: Made,
) -> None:
    """`DataLoader`: its keywords edited, and each of its iterators wrapped."""
    from torch.utils.data import DataLoader

    def begins(cls: type, keywords: dict[str, Any]) -> None:
        for edit in edits:
            edit(keywords)

    watch_constructor(replaced, DataLoader, begins, made)
    if not wraps:
        return
    original: Any = DataLoader.__iter__

    @functools.wraps(original)
    def iterate(this: Any) -> Any:
        return functools.reduce(lambda batches, wrap: wrap(batches), wraps, original(this))

    replaced.set(DataLoader, "__iter__", iterate)


def watch_wrappers(
    replaced: Replaced,
    begins: Callable[[str, dict[str, Any]], None],
    made: Callable[[str, Any, dict[str, Any]], None],
) -> None:
    """Distributed wrappers, told as "ddp", "fsdp1" and "fully_shard"."""
    import torch

    if not torch.distributed.is_available():
        return
    for kind, (home, name) in _WRAPPERS.items():
        cls = getattr(__import__(home, fromlist=[name]), name)
        _watch_wrapper(replaced, kind, cls, begins, made)
    import torch.distributed.fsdp as fsdp

    original = getattr(fsdp, "fully_shard", None)
    if original is None:
        return

    @functools.wraps(original)
    def fully_shard(module: Any, **keywords: Any) -> Any:
        begins("fully_shard", keywords)
        sharded = original(module, **keywords)
        made("fully_shard", sharded, keywords)
        return sharded

    # `fully_shard.state` and the like hang on the function.
    fully_shard.__dict__.update(vars(original))
    replaced.set(fsdp, "fully_shard", fully_shard)
    replaced.in_user_modules("fully_shard", original, fully_shard)


def _watch_wrapper(
    replaced: Replaced,
    kind: str,
    cls: Any,
    begins: Callable[[str, dict[str, Any]], None],
    made: Callable[[str, Any, dict[str, Any]], None],
) -> None:
    watch_constructor(
        replaced, cls, lambda _, keywords: begins(kind, keywords), functools.partial(made, kind)
    )
