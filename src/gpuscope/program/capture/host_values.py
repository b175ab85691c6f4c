"""Host tensors hold values: what is small is computed at once, what is large when it is asked for.

Indices, masks, split sizes, random choices, samplers and metrics are computed on the CPU in a real
run, and decide what the device does. A fake tensor has no values, so beside each host tensor of the
capture stands what it would hold (`Kept`), computed by the same operators on real memory: its views
share that memory, and writes in place are seen through all of them. Above `SMALL` elements nothing
is computed until code asks (`.item()`, `.tolist()`, `.numpy()`, a selection by a mask): until then
there is only the recipe. Whole numbers and flags on the device that follow from the host's alone
(lengths, offsets, positions) are known in the same way; what a kernel computed from data is not.

PyTorch has a like road (`fake_tensor_propagate_real_tensors`), which computes all tensors, weights
too, and turns sizes that depend on data into symbols that a recorder would have to turn back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch

from gpuscope.program.capture.calls import Facts, flat
from gpuscope.program.capture.fakes import on_device

__all__ = ["HostValues"]

SMALL = 2**16
"""Elements up to which a host tensor is computed at once: microseconds, half a megabyte."""

SMALL_ON_DEVICE = 2**12
"""Elements up to which whole numbers and flags are followed on the device."""

FEW_POSITIONS = 512
"""Elements up to which whole numbers are followed there that stand in a type with a point."""

MOST_BYTES = 2**30
"""Bytes up to which values are made when somebody asks; beyond, they are taken as unknown."""

_ATTRIBUTE = "_gpuscope_kept"


class _Memory:
    """What views of one memory share: whether its values are still known."""

    __slots__ = ("__weakref__", "lost")

    def __init__(self) -> None:
        self.lost = False


class Kept:
    """What a tensor would hold: real memory, or the recipe for it.

    Args:
        memory: shared by all views of it.
        real: the values; None until they are made.
        recipe: operator, its arguments with `Kept` for tensors, which of its results, and the
            versions of the memory that it reads, which must not have been written since.
        nbytes: what following the recipe takes.
    """

    __slots__ = ("memory", "nbytes", "real", "recipe")

    def __init__(
        self, memory: _Memory, real: torch.Tensor | None, recipe: Any = None, nbytes: int = 0
    ) -> None:
        self.memory, self.real, self.recipe, self.nbytes = memory, real, recipe, nbytes


class HostValues:
    """The values of one capture's tensors, as far as they are known.

    Args:
        generator: what random numbers are drawn from; None: from the process's own.
    """

    def __init__(self, generator: torch.Generator | None) -> None:
        self._generator = generator
        self._by_storage: WeakValueDictionary[int, _Memory] = WeakValueDictionary()

    def of(self, tensor: Any) -> Kept | None:
        """What stands beside a tensor; None where its values are unknown."""
        kept: Kept | None = getattr(tensor, _ATTRIBUTE, None)
        return None if kept is None or kept.memory.lost else kept

    def read(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The values of a tensor, made now where need be; None where they are unknown."""
        kept = self.of(tensor)
        return None if kept is None else _made(kept)

    def told(self, tensor: torch.Tensor, how: str) -> Any:
        """What `tensor.item()`, `.tolist()` or `.numpy()` says; None where it is unknown."""
        real = self.read(tensor)
        if real is None:
            return None
        with _ordinary():
            return getattr(torch._C.TensorBase, how)(real)

    def adopt(self, fake: torch.Tensor, real: torch.Tensor) -> None:
        """A tensor made outside of the capture: its values are read, never written."""
        if getattr(fake, _ATTRIBUTE, None) is None and _plain(real):
            small = real.numel() <= SMALL
            with no_dispatch():
                held = real.detach()
                kept = Kept(_Memory(), held.clone() if small else None, None if small else held)
            self._keep(fake, kept)

    def alias(self, fake: torch.Tensor, of: torch.Tensor) -> None:
        """A tensor that PyTorch makes without an operator, of the same memory or a copy of it."""
        kept = self.of(of)
        if kept is not None:
            self._keep(fake, kept)

    def translate(self, of: torch.Tensor, fake: torch.Tensor, change: Any) -> None:
        """A tensor whose values follow from those of another, known ones, by a function of them."""
        real = self.read(of)
        if real is not None:
            with _ordinary():
                self._keep(fake, Kept(_Memory(), change(real)))

    def _keep(self, fake: torch.Tensor, kept: Kept) -> None:
        setattr(fake, _ATTRIBUTE, kept)
        self._by_storage[fake.untyped_storage()._cdata] = kept.memory

    def compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The results of an operator on known values, whatever their size; None if unknown."""
        given = [t for t in flat((args, tuple(kwargs.values()))) if isinstance(t, torch.Tensor)]
        if not given or any(self.read(t) is None for t in given):
            return None
        found = _run(func, self._swapped(args, _made), self._swapped(kwargs, _made))
        return None if found is _NO else found

    def follow(self, func: Any, facts: Facts, args: Any, kwargs: Any, out: Any) -> None:
        """Keep up with an operator that has run on fakes."""
        if torch.Tag.nondeterministic_seeded in func.tags:
            func, kwargs = self._drawing(func, kwargs)
        given = [t for t in flat((args, tuple(kwargs.values()))) if isinstance(t, torch.Tensor)]
        outs = [t for t in flat(out) if isinstance(t, FakeTensor)]
        if any(t.layout is not torch.strided for t in (*given, *outs)):
            return
        kept = [self._given(facts, t) for t in given]
        known = all(k is not None for k in kept)
        if given and not any(kept):
            if func._schema.is_mutable:
                self._lose(t for t in given if not on_device(t))
            return
        if not known and facts.name in _SETTLED and self._settled(facts, kept, out):
            return
        if func._schema.is_mutable:
            self._written(func, args, kwargs, given, known)
        elif known and outs and self._worth(func, facts, given, outs):
            self._made_of(func, facts, args, kwargs, [k for k in kept if k is not None], outs)

    def _drawing(self, func: Any, kwargs: Any) -> tuple[Any, Any]:
        """A random operator that draws from the capture's own generator, not from the process's."""
        if kwargs.get("generator") is not None or self._generator is None:
            return func, kwargs
        if not any(a.name == "generator" for a in func._schema.arguments):
            packet, name = func.overloadpacket, func._overloadname
            name = {"": "generator", "default": "generator", "low": "low_generator"}.get(name, name)
            func = getattr(packet, name, func)
        return func, {**kwargs, "generator": self._generator}

    def _given(self, facts: Facts, tensor: torch.Tensor) -> Kept | None:
        """What is known of an argument; a real tensor that PyTorch hands over is its own value."""
        if isinstance(tensor, FakeTensor):
            return self.of(tensor)
        if facts.name != "aten::lift_fresh" or not _plain(tensor):
            return None
        return Kept(_Memory(), tensor)

    def _worth(self, func: Any, facts: Facts, given: Any, outs: Any) -> bool:
        """Whether results are followed: all on the host; on the device, few whole numbers."""
        if not any(on_device(t) for t in (*given, *outs)):
            return True
        if torch.Tag.nondeterministic_seeded in func.tags:
            return False
        if facts.name == "aten::empty" and any(t.numel() for t in outs):
            return False
        if any(t.is_complex() for t in outs):
            return False
        positions = any(t.is_floating_point() for t in outs)
        most = FEW_POSITIONS if positions else SMALL_ON_DEVICE
        return bool(given or not positions) and all(t.numel() <= most for t in (*given, *outs))

    def _settled(self, facts: Facts, kept: list[Kept | None], out: torch.Tensor) -> bool:
        """True or anything is true, false and anything is false: the limit of a generation."""
        decisive = _SETTLED[facts.name]
        for k in kept:
            real = None if k is None else _made(k)
            if real is None or real.dtype is not torch.bool:
                continue
            with _ordinary():
                if real.numel() and bool((real == decisive).all()):
                    value = torch.full(tuple(out.shape), decisive, dtype=torch.bool)
                    self._keep(out, Kept(_Memory(), value))
                    return True
        return False

    def _written(self, func: Any, args: Any, kwargs: Any, given: Any, known: bool) -> None:
        """An operator that writes: on real memory too, or what was written to is lost."""
        named = zip(func._schema.arguments, args, strict=False)
        targets = [value for a, value in named if a.alias_info and a.alias_info.is_write]
        names = {a.name for a in func._schema.arguments if a.alias_info and a.alias_info.is_write}
        targets = [t for t in flat((targets, [kwargs.get(n) for n in names])) if _is_tensor(t)]
        kept = [self.of(t) for t in given]
        if known and all(k is not None and k.real is not None for k in kept):
            whole = [self.of(t) for t in targets]
            if not any(k is None or k.recipe is not None for k in whole):
                results = _run(func, self._swapped(args, _made), self._swapped(kwargs, _made))
                same = (
                    k is not None and k.real is not None and t.shape == k.real.shape
                    for t, k in zip(targets, whole, strict=True)
                )
                if results is not _NO and all(same):
                    return
        self._lose(targets)

    def _lose(self, targets: Iterable[torch.Tensor]) -> None:
        """What was written to is unknown from now on, through all views."""
        for target in targets:
            memory = self._by_storage.get(target.untyped_storage()._cdata)
            if memory is not None:
                memory.lost = True

    def _made_of(
        self, func: Any, facts: Facts, args: Any, kwargs: Any, kept: list[Kept], outs: Any
    ) -> None:
        """The results of an operator that writes nothing: at once if small, else the recipe."""
        sizes = (
            [t.numel() for t in outs]
            if facts.viewing
            else [t.numel() for t in outs] + [k.real.numel() for k in kept if k.real is not None]
        )
        if all(k.real is not None for k in kept) and max(sizes) <= SMALL:
            results = _run(func, self._swapped(args, _made), self._swapped(kwargs, _made))
            made = [] if results is _NO else [t for t in flat(results) if _is_tensor(t)]
            if [t.shape for t in made] == [t.shape for t in outs]:
                for fake, real in zip(outs, made, strict=True):
                    sent = facts.name == "aten::_to_copy" and real.numel() == 1  # a rate, say
                    if not on_device(fake) or sent or _is_whole(real):
                        self._keep(fake, Kept(_memory_of(real, kept), real))
            return
        recipe_args, recipe_kwargs = self._swapped(args, _same), self._swapped(kwargs, _same)
        versions = [(k, k.real._version) for k in kept if k.real is not None]
        for at, fake in enumerate(outs):
            memory = kept[0].memory if facts.viewing and kept else _Memory()
            recipe = (func, recipe_args, recipe_kwargs, at, versions)
            self._keep(fake, Kept(memory, None, recipe, fake.numel() * fake.element_size()))

    def _swapped(self, value: Any, change: Any) -> Any:
        """Arguments with what is known in place of tensors, for the host's own kernels."""
        if isinstance(value, FakeTensor):
            return change(self.of(value))
        if isinstance(value, dict):
            return {
                k: self._swapped(v, change) for k, v in value.items() if k not in ("pin_memory",)
            }
        if isinstance(value, (list, tuple)):
            return type(value)(self._swapped(v, change) for v in value)
        if isinstance(value, torch.device):
            return torch.device("cpu")
        return value


_SETTLED = {
    f"aten::{sort}_{name}": name == "or"
    for sort in ("bitwise", "logical")
    for name in ("or", "and")
}
"""Operators that one operand can decide, and the value of it that does."""

_NO = object()
"""What stands for the results of an operator that cannot be computed here."""


def _same(kept: Kept) -> Kept:
    return kept


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _plain(real: torch.Tensor) -> bool:
    """Whether values are in ordinary host memory."""
    return type(real) in (torch.Tensor, torch.nn.Parameter) and (
        real.device.type == "cpu" and real.layout is torch.strided
    )


def _is_whole(real: torch.Tensor) -> bool:
    """Whether all values are whole numbers, whatever their type."""
    with no_dispatch():
        return not real.is_floating_point() or bool((real == real.round()).all())


def _memory_of(real: torch.Tensor, kept: list[Kept]) -> _Memory:
    place = real.untyped_storage()._cdata
    for k in kept:
        if k.real is not None and k.real.untyped_storage()._cdata == place:
            return k.memory
    return _Memory()


def _made(kept: Kept) -> torch.Tensor | None:
    """Follow the recipe, and those that it needs; None where memory was written in between."""
    if kept.real is not None:
        return kept.real
    if isinstance(kept.recipe, torch.Tensor):
        return kept.recipe
    if kept.nbytes > MOST_BYTES:
        return None
    func, args, kwargs, at, versions = kept.recipe
    if any(k.real._version != version for k, version in versions):
        return None
    inputs = [_made(k) for k in flat((args, tuple(kwargs.values()))) if isinstance(k, Kept)]
    if any(real is None for real in inputs):
        return None
    results = _run(func, _unwrapped(args), _unwrapped(kwargs))
    if results is _NO:
        return None
    kept.real = [t for t in flat(results) if _is_tensor(t)][at]
    return kept.real


def _unwrapped(value: Any) -> Any:
    if isinstance(value, Kept):
        return _made(value)
    if isinstance(value, dict):
        return {k: _unwrapped(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_unwrapped(v) for v in value)
    return value


@contextmanager
def _ordinary() -> Iterator[None]:
    """Tensors made inside can be written to later, also where inference mode is on."""
    with no_dispatch(), torch.inference_mode(False), torch.no_grad():
        yield


def _run(func: Any, args: Any, kwargs: Any) -> Any:
    """An operator on real memory; `_NO` where the host has no kernel for it."""
    try:
        with _ordinary():
            return func(*args, **kwargs)
    except (RuntimeError, NotImplementedError, IndexError, ValueError, TypeError):
        return _NO
