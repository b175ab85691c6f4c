"""Topics by name: one small file a topic, each registering itself.

A topic is a function that returns an `Explanation`. Write one, decorate it with `@topic`, put it in
this folder; `gs.explain("name", ...)` finds it. Its command is a file in `gpuscope/cli/explain/`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any, TypeVar

from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.explain.types import Explanation

_TOPICS: dict[str, Callable[..., Explanation]] = {}
_loaded = False

Topic = TypeVar("Topic", bound=Callable[..., Explanation])


def topic(name: str) -> Callable[[Topic], Topic]:
    """Register a topic under its name."""

    def register(function: Topic) -> Topic:
        if name in _TOPICS and _TOPICS[name] is not function:
            raise ValueError(f"two topics named {name}")
        _TOPICS[name] = function
        return function

    return register


def topics() -> tuple[str, ...]:
    """Names of all topics."""
    _load()
    return tuple(sorted(_TOPICS))


def explain(topic: str, /, *values: Any, **options: Any) -> Explanation:
    """Explain one thing.

    Args:
        topic: "matmul", "attention", "collective", ...; `topics()` lists them.
        values: what the topic takes, e.g. the three sizes of a product.
        options: its options, e.g. `dtype="bf16"`, `on="h200"`.

    Raises:
        UnknownNameError: no such topic.
        InvalidValueError: it does not take these values or options, or one is impossible.
    """
    _load()
    function = _TOPICS.get(topic)
    if function is None:
        raise UnknownNameError("topic", topic, _TOPICS)
    try:
        inspect.signature(function).bind(*values, **options)
    except TypeError as error:
        raise InvalidValueError(
            f"'{topic}' cannot be explained from this: {error}.",
            f"It takes {inspect.signature(function)}.",
            f"Type: gpuscope explain {topic} --help",
        ) from None
    return function(*values, **options)


def _load() -> None:
    global _loaded
    if not _loaded:
        import gpuscope.explain as package

        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"gpuscope.explain.{module.name}")
        _loaded = True
