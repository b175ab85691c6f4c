"""Topics by name: one small file a topic, each registering itself.

A topic is a function that returns an `Explanation`. Write one, decorate it with `@topic`, put it in
this folder; `gs.explain("name", ...)` finds it. Its command is a file in `gpuscope/cli/explain/`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from gpuscope.document.blocks import Explanation
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.registry import Registry

TOPICS = Registry[Callable[..., Explanation]](Text("topic"), "gpuscope.explanation")

Topic = TypeVar("Topic", bound=Callable[..., Explanation])


def topic(name: str) -> Callable[[Topic], Topic]:
    """Register a topic under its name."""

    def register(function: Topic) -> Topic:
        TOPICS.add(name, function)
        return function

    return register


def topics() -> tuple[str, ...]:
    """Names of all topics."""
    return TOPICS.names()


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
    function = TOPICS.get(topic)
    try:
        inspect.signature(function).bind(*values, **options)
    except TypeError as error:
        raise InvalidValueError(
            Text("'{topic}' cannot be explained from this: {error}.", topic=topic, error=error),
            Text("It takes {signature}.", signature=str(inspect.signature(function))),
            Text("Type: gpuscope explain {topic} --help", topic=topic),
        ) from None
    return function(*values, **options)
