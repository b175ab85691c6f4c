"""Answer a repeated operator from memory: same operator, same metadata, same result.

A model repeats its layers, so most operator calls are seen many times with the same shapes.
`FakeTensorMode` has a cache of its own whose keys cost more than the rest; this one, for the
calls that a recorder sees, is about three times faster. Only results that follow from metadata
alone are kept: fresh outputs, views of one input, and in-place writes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager

from gpuscope.program.capture.fakes import with_index

_FRESH, _VIEW, _SAME, _NONE = range(4)

Key = tuple[Any, ...]


class Unhashable(Exception):  # noqa: N818
    """An argument that cannot be part of a key."""


class Replay:
    """Results by operator and metadata, for one fake mode."""

    def __init__(self, fake: FakeTensorMode) -> None:
        self.fake = fake
        self._plans: dict[Key, list[Any] | None] = {}

    def share(self, other: Replay) -> None:
        """Use, and add to, what `other` knows: the same workload is captured again."""
        self._plans = other._plans

    def key(self, func: Any, args: Any, kwargs: Any) -> Key | None:
        """What the result depends on; None if the call cannot be remembered."""
        try:
            parts = tuple(_part(a) for a in args)
            if kwargs:
                parts = (parts, *((k, _part(v)) for k, v in kwargs.items()))
            return (func, parts, torch.get_default_dtype())
        except Unhashable:
            return None

    def known(self, key: Key) -> bool:
        """Whether `make` can answer."""
        return self._plans.get(key) is not None

    def make(self, key: Key, args: Any) -> Any:
        """The result of a known call on these arguments."""
        plan = self._plans[key]
        assert plan is not None
        many, items = plan
        base = next((args[item[5]] for item in items if item[0] == _VIEW), None)
        if torch.is_inference_mode_enabled() and base is not None and not base.is_inference():
            # A view of an ordinary tensor is an ordinary tensor, also in inference mode.
            with torch.inference_mode(False), torch.no_grad():
                made = self._made(items, args)
        else:
            made = self._made(items, args)
        return made[0] if many is None else many(made)

    def learn(self, key: Key, args: Any, out: Any) -> None:
        """Remember how `out` came about, if it follows from metadata."""
        if key in self._plans:
            return
        many = type(out) if isinstance(out, (list, tuple)) else None
        values = list(out) if many is not None else [out]
        tensors = _flat_tensors(args)
        items = [_plan(v, args, tensors) for v in values]
        if many is not None and many not in (list, tuple):
            self._plans[key] = None
        else:
            self._plans[key] = None if any(i is None for i in items) else [many, items]

    def _made(self, items: Any, args: Any) -> list[Any]:
        with in_kernel_invocation_manager(self.fake):
            raw = [self._raw(item, args) for item in items]
        return [self._wrap(item, elem) for item, elem in zip(items, raw, strict=True)]

    def _raw(self, item: Any, args: Any) -> Any:
        kind = item[0]
        if kind == _NONE:
            return None
        if kind == _SAME:
            return args[item[1]]
        _, shape, stride, dtype, _, index, offset = item
        elem = torch.empty_strided(
            shape if kind == _FRESH else (0,),
            stride if kind == _FRESH else (1,),
            dtype=dtype,
            device="meta",
        )
        if kind == _VIEW:
            elem.set_(args[index].untyped_storage(), offset, shape, stride)
        return elem

    def _wrap(self, item: Any, elem: Any) -> Any:
        if item[0] in (_NONE, _SAME):
            return elem
        return FakeTensor(self.fake, elem, item[4])


def _part(value: Any) -> Any:
    if isinstance(value, FakeTensor):
        if value.constant is not None or value.layout is not torch.strided:
            raise Unhashable
        return (
            value.shape,
            value.stride(),
            value.dtype,
            value.fake_device.type,
            value.storage_offset(),
        )
    if isinstance(value, torch.Tensor):
        raise Unhashable
    if isinstance(value, (list, tuple)):
        return tuple(_part(v) for v in value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return (type(value), value)
    if isinstance(value, torch.device):
        return with_index(value)
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return value
    raise Unhashable


def _flat_tensors(args: Any) -> list[torch.Tensor]:
    out: list[torch.Tensor] = []
    for a in args:
        if isinstance(a, torch.Tensor):
            out.append(a)
        elif isinstance(a, (list, tuple)):
            out.extend(_flat_tensors(a))
    return out


def _plan(value: Any, args: Any, tensors: list[torch.Tensor]) -> Any:
    if value is None:
        return (_NONE,)
    if not isinstance(value, FakeTensor) or value.constant is not None:
        return None
    if value.layout is not torch.strided:
        return None
    for index, a in enumerate(args):
        if value is a:
            return (_SAME, index)
    shape, stride = tuple(value.shape), value.stride()
    key = value.untyped_storage()._cdata
    for index, a in enumerate(args):
        if isinstance(a, torch.Tensor) and a.untyped_storage()._cdata == key:
            return (
                _VIEW,
                shape,
                stride,
                value.dtype,
                value.fake_device,
                index,
                value.storage_offset(),
            )
    if value.storage_offset() or any(t.untyped_storage()._cdata == key for t in tensors):
        return None
    extent = 1 + sum((s - 1) * st for s, st in zip(shape, stride, strict=True))
    if value.untyped_storage().nbytes() != extent * value.element_size() and value.numel():
        return None
    return (_FRESH, shape, stride, value.dtype, value.fake_device, -1, 0)
