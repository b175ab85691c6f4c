"""A key for caches of what follows from something large that is kept, not copied."""

from __future__ import annotations

from typing import Generic, TypeVar

Value = TypeVar("Value")


class Same(Generic[Value]):
    """Equal to another of the very same object only; comparing and hashing look at no content.

    Attributes:
        value: the object; as long as this lives, its identity is nobody else's.
    """

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)
