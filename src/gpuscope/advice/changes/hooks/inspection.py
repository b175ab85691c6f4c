"""What live code is made of: models, optimizers, loaders and wrappers, as plain data."""

from __future__ import annotations

import functools
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

from gpuscope.advice.changes.hooks.replaced_names import Replaced
from gpuscope.advice.changes.hooks.root_modules import unwrapped
from gpuscope.advice.source.build_batch import batch_of
from gpuscope.advice.types import LoaderSeen, ModelSeen, OptimizerSeen, Seen, WrapSeen
from gpuscope.program.capture.patches import by_thread
from gpuscope.program.user_code import is_library

__all__ = ["Seeing", "user_site"]

_PLAIN = (int, float, str, bool, type(None))


class Seeing:
    """Collects what is met; nothing is kept alive."""

    def __init__(self) -> None:
        self._optimizers: list[OptimizerSeen] = []
        self._loaders: list[LoaderSeen] = []
        self._wraps: Counter[tuple[str, tuple[tuple[str, object], ...], str]] = Counter()
        self._models: list[ModelSeen] = []
        self._batch: int | None = None
        self._made: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def watch_models(self, replaced: Replaced) -> None:
        """Notice from now on which line of the user makes which module."""
        import torch

        made, original = self._made, torch.nn.Module.__init__

        @functools.wraps(original)
        def construct(this: Any, *args: Any, **kwargs: Any) -> None:
            original(this, *args, **kwargs)
            if this not in made:
                made[this] = user_site(_maker(sys._getframe(1), this))

        replaced.set(torch.nn.Module, "__init__", construct)

    def model(self, module: Any) -> None:
        """A root module, before anything edits it."""
        self._models.append(replace(_model(module), site=self._made.get(module, "")))

    def optimizer(self, optimizer: Any, keywords: Mapping[str, Any]) -> None:
        """An optimizer that was made."""
        owned = [p for group in optimizer.param_groups for p in group["params"]]
        self._optimizers.append(
            OptimizerSeen(
                type(optimizer).__name__,
                _plain({**optimizer.defaults, **keywords}),
                sum(p.numel() for p in owned),
                tuple(sorted({str(p.dtype).removeprefix("torch.") for p in owned})),
                user_site(),
            )
        )

    def loader(self, loader: Any, keywords: Mapping[str, Any]) -> None:
        """A `DataLoader` that was made."""
        try:
            samples = len(loader.dataset)
        except (TypeError, NotImplementedError):
            samples = None
        from torch.utils.data import IterableDataset

        self._loaders.append(
            LoaderSeen(
                _plain(keywords),
                samples,
                user_site(),
                type(loader.dataset).__name__,
                isinstance(loader.dataset, IterableDataset),
            )
        )

    def build(self, build: Callable[..., Any]) -> None:
        """The build function, as the user wrote it."""
        found = batch_of(build)
        self._batch = None if found is None else found[1]

    def wrap(self, kind: str, keywords: Mapping[str, Any]) -> None:
        """A distributed wrapper that was made."""
        plain = tuple(sorted(_plain(keywords).items()))
        self._wraps[kind, plain, user_site()] += 1

    def seen(
        self, models: Sequence[Any], optimizers: Sequence[Any], file: str, function: str
    ) -> Seen:
        """All of it, with what only the present state shows."""
        return Seen(
            models=tuple(self._models),
            optimizers=tuple(self._optimizers),
            loaders=tuple(self._loaders),
            wraps=tuple(
                WrapSeen(kind, dict(plain), site, count)
                for (kind, plain, site), count in self._wraps.items()
            ),
            dropout=any(_drops(module) for module in models),
            file=file,
            function=function,
            batch=self._batch,
        )


def _model(module: Any) -> ModelSeen:
    import torch

    inner = unwrapped(module)
    cls = type(inner)
    children = list(module.modules())
    parameters = list(module.parameters())
    home = sys.modules.get(cls.__module__)
    lists = [m for m in children if isinstance(m, (torch.nn.ModuleList, torch.nn.Sequential))]
    repeated = max((_equal_blocks(m) for m in lists), key=lambda each: each[1], default=("", 0))
    return ModelSeen(
        class_name=cls.__name__,
        module=cls.__module__,
        file=getattr(home, "__file__", "") or "",
        parameters=sum(p.numel() for p in parameters),
        dtypes=tuple(sorted({str(p.dtype).removeprefix("torch.") for p in parameters})),
        classes=dict(Counter(type(m).__name__ for m in children)),
        repeated=repeated if repeated[1] > 1 else None,
        training=module.training,
        attention=_told(children, "_attn_implementation"),
        compiled=any(
            type(m).__name__ == "OptimizedModule" or getattr(m, "_compiled_call_impl", None)
            for m in children
        ),
        requires_grad=any(p.requires_grad for p in parameters),
        kernels=tuple(
            tuple(m.weight.shape) for m in children if isinstance(m, torch.nn.modules.conv._ConvNd)
        ),
        linears=tuple(
            dict.fromkeys(
                (int(m.weight.shape[0]), int(m.weight.shape[1]))
                for m in children
                if isinstance(m, (torch.nn.Linear, torch.nn.Embedding))
            )
        ),
        experts=_told(
            [m for m in children if hasattr(m, "is_transposed")], "_experts_implementation"
        ),
        sparse=any(getattr(m, "sparse", False) is True for m in children),
        files=tuple(dict.fromkeys(f for m in children if (f := _own_file(type(m))))),
        wrapper="" if inner is module else type(module).__name__,
    )


def _told(modules: Sequence[Any], name: str) -> str:
    """What the outermost module with such a word in its config (of transformers) was told."""
    for module in modules:
        value = getattr(getattr(module, "config", None), name, None)
        if isinstance(value, str):
            return value
    return ""


def _equal_blocks(blocks: Any) -> tuple[str, int]:
    names = Counter(type(m).__name__ for m in blocks if any(True for _ in m.children()))
    return names.most_common(1)[0] if names else ("", 0)


def _drops(module: Any) -> bool:
    import torch

    return any(
        m.training
        and (
            (isinstance(m, torch.nn.modules.dropout._DropoutNd) and m.p > 0)
            or (isinstance(m, torch.nn.RNNBase) and m.dropout > 0)
        )
        for m in module.modules()
    )


def _plain(values: Mapping[str, Any]) -> dict[str, object]:
    return {
        name: value
        for name, value in values.items()
        if name != "params"
        and (
            isinstance(value, _PLAIN)
            or (
                isinstance(value, tuple)
                and len(value) < 9
                and all(isinstance(v, _PLAIN) for v in value)
            )
        )
    }


def _own_file(cls: type) -> str:
    """The user's file that defines a class; "" for a library's."""
    forward = getattr(cls, "forward", None)
    file = getattr(getattr(forward, "__code__", None), "co_filename", "<")
    return "" if is_library(file) else file


def _maker(frame: FrameType | None, this: Any) -> FrameType | None:
    """The frame that calls the constructor of an object, from one inside of it."""
    while frame is not None and (
        frame.f_globals.get("__name__") == by_thread.__module__
        or any(frame.f_locals.get(name) is this for name in frame.f_code.co_varnames[:1])
    ):
        frame = frame.f_back
    return frame


def user_site(frame: FrameType | None = None) -> str:
    """ "path/file.py:12" of the innermost line that is neither a library's nor gpuscope's; "".

    Args:
        frame: where to begin; the caller by default.
    """
    frame = frame or sys._getframe(1)
    while frame is not None:
        if not is_library(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
