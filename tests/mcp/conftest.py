from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def call() -> Callable[..., Any]:
    """Calls one tool of a client; its structured result, or its error's text."""

    async def made(client: Any, name: str, **arguments: Any) -> Any:
        done = await client.call_tool(name, arguments)
        return done.content[0].text if done.is_error else done.structured_content

    return made
