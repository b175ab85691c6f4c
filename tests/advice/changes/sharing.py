"""Equal builds are captured once: two are equal by their code and by what it closes over."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch

__all__ = ["Shared", "alike"]

_PLAIN = (bool, int, float, str, bytes, type(None), torch.dtype, torch.device, type)
_MOST = 64


class _NotPlainError(Exception):
    """What may change, so that nobody knows whether two are equal."""


def alike(value: Any) -> Hashable:
    """What two functions are compared by; None where one holds what can change."""
    try:
        return _alike(value)
    except _NotPlainError:
        return None


def _alike(value: Any) -> Hashable:
    if isinstance(value, (*_PLAIN, BuiltinFunctionType)):
        return type(value), value
    if isinstance(value, (tuple, frozenset)):
        return type(value), tuple(_alike(each) for each in value)
    if isinstance(value, dict):
        return dict, tuple((key, _alike(each)) for key, each in value.items())
    if not isinstance(value, FunctionType):
        raise _NotPlainError(type(value).__name__)
    try:
        closed = tuple(cell.cell_contents for cell in value.__closure__ or ())
    except ValueError as error:  # not filled yet, or a function that closes over itself
        raise _NotPlainError("cell") from error
    code = value.__code__
    given = (value.__defaults__ or (), value.__kwdefaults__ or {})
    return code.co_filename, code, _alike(given), _alike(closed)


class Shared:
    """Results of a function of builds, the latest few."""

    def __init__(self) -> None:
        self._made: OrderedDict[Hashable, Any] = OrderedDict()

    def of(self, build: Callable[..., Any], about: Hashable, make: Callable[[], Any]) -> Any:
        """What was made of an equal build before, else what `make` gives.

        Args:
            build: whose code and closure decide, together with its module's globals.
            about: what else decides.
        """
        known = alike(build)
        if known is None:
            return make()
        key = (known, about)
        if key not in self._made:
            self._made[key] = make()
            while len(self._made) > _MOST:
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        return self._made[key]
