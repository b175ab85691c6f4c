"""The server: tools and resources on standard input and output, with the official `mcp` package."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import wraps
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from gpuscope import __version__
from gpuscope.document.plain import dumps
from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError, require_package
from gpuscope.mcp.tools import NAMES, Tools

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

_INSTRUCTIONS = (
    "gpuscope predicts and measures PyTorch on GPUs; no GPU is needed to predict. Read the resource"
    " gpuscope://method first. Results are short; details(id, path) has the rest."
)


def make_server(tools: Tools | None = None) -> MCPServer[Any]:
    """Return the server, with its tools and resources.

    Args:
        tools: what it calls; new ones by default.

    Raises:
        MissingPackageError: `mcp` is not installed.
    """
    require_package("mcp", Text("Serving tools"), "mcp")
    from mcp.server.mcpserver import MCPServer

    held = tools or Tools()
    server: MCPServer[Any] = MCPServer(
        "gpuscope",
        title="gpuscope",
        instructions=_INSTRUCTIONS,
        version=__version__,
        log_level="WARNING",
    )
    one_at_a_time = Lock()
    for name in NAMES:
        server.add_tool(_told(getattr(held, name), one_at_a_time), structured_output=True)
    _add_resources(server, held)
    return server


def _told(tool: Callable[..., Any], lock: Lock) -> Callable[..., Any]:
    """A tool whose errors are sentences; one at a time, since a capture patches torch."""
    from mcp.server.mcpserver.exceptions import ToolError

    @wraps(tool)
    def call(*given: Any, **named: Any) -> Any:
        try:
            with lock:
                return tool(*given, **named)
        except GpuscopeError as error:
            raise ToolError(str(error)) from None

    return call


def _add_resources(server: MCPServer[Any], tools: Tools) -> None:
    from mcp.server.mcpserver.exceptions import ResourceNotFoundError

    def method() -> str:
        return (files("gpuscope.mcp") / "method.md").read_text("utf-8")

    def document(id: str) -> str:
        try:
            return dumps(tools.results.get(id).document)
        except GpuscopeError as error:
            raise ResourceNotFoundError(str(error)) from None

    def report(id: str) -> str:
        try:
            return _page(tools, id)
        except GpuscopeError as error:
            raise ResourceNotFoundError(str(error)) from None

    for function, uri, title, mime in (
        (method, "gpuscope://method", "How to make code faster with these tools", "text/markdown"),
        (document, "gpuscope://results/{id}", "A result's whole document", "application/json"),
        (report, "gpuscope://reports/{id}", "A run or explanation as a page", "text/html"),
    ):
        server.resource(uri, title=title, mime_type=mime)(function)

    def teach() -> str:
        """Teach the method: predict, explain the difference, change, verify."""
        return method()

    server.prompt("method")(teach)


def _page(tools: Tools, name: str) -> str:
    from gpuscope.views.html import write_explanation, write_report

    found = tools.results.get(name)
    with tempfile.TemporaryDirectory(prefix="gpuscope-") as folder:
        path = Path(folder) / "page.html"
        if found.explanation is not None:
            write_explanation(found.explanation, path)
        else:
            write_report(tools.results.run(name), path, what_if=False)
        return path.read_text("utf-8")


def run_server() -> None:
    """Serve until standard input ends.

    Raises:
        MissingPackageError: `mcp` is not installed.
    """
    make_server().run("stdio")
