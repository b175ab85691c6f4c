"""What `gpuscope load` asks: the load, and how the server is asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from gpuscope.cli.groups import Group
from gpuscope.document.text import Text

_LOAD: dict[str, tuple[Any, Any]] = {
    "rate": (
        Annotated[float | None, typer.Option(help=Text("Requests a second, sent at their times."))],
        None,
    ),
    "concurrency": (
        Annotated[int | None, typer.Option(help=Text("Instead: so many requests in flight."))],
        None,
    ),
    "lasts": (
        Annotated[
            str | None, typer.Option("--for", metavar="TIME", help=Text("How long: 60s, 5m [60s]."))
        ],
        None,
    ),
    "requests": (
        Annotated[int | None, typer.Option(help=Text("How many requests, at most."))],
        None,
    ),
    "input": (
        Annotated[
            str, typer.Option(help=Text("Tokens of a prompt: 512, 256..1024, lognormal:512,0.8."))
        ],
        "512",
    ),
    "answer": (
        Annotated[str, typer.Option(help=Text("Answer tokens, likewise. --output N is the same."))],
        "128",
    ),
    "arrivals": (
        Annotated[
            str,
            typer.Option(
                help=Text("poisson, gamma, constant, steps:2x30,8x30, conversations:5x20.")
            ),
        ],
        "poisson",
    ),
    "burstiness": (Annotated[float, typer.Option(help=Text("Of gamma arrivals."))], 1.0),
    "shared": (Annotated[int, typer.Option(help=Text("Tokens that prompts begin with alike."))], 0),
    "groups": (Annotated[int, typer.Option(help=Text("How many such beginnings."))], 1),
    "seed": (Annotated[int, typer.Option(help=Text("Same seed, same requests."))], 0),
}

_HOW: dict[str, tuple[Any, Any]] = {
    "model": (
        Annotated[
            str, typer.Option(help=Text("Name of the model there; default: the one it has."))
        ],
        "",
    ),
    "api": (Annotated[str, typer.Option(help=Text("completions, chat or triton."))], "completions"),
    "prompts": (
        Annotated[str | None, typer.Option(help=Text("ids or words [what the server takes]."))],
        None,
    ),
    "tokenizer": (
        Annotated[
            Path | None, typer.Option(help=Text("Folder of a local one, for exact lengths."))
        ],
        None,
    ),
    "timeout": (
        Annotated[str, typer.Option(help=Text("The longest that an answer may take."))],
        "10m",
    ),
    "engine_log": (
        Annotated[
            Path | None, typer.Option(metavar="FILE", help=Text("vLLM's log of its iterations."))
        ],
        None,
    ),
    "dcgm": (
        Annotated[
            str | None,
            typer.Option(metavar="URL", help=Text("DCGM's exporter beside it: http://host:9400.")),
        ],
        None,
    ),
    "otlp": (
        Annotated[
            int | None,
            typer.Option(metavar="PORT", help=Text("Take the server's spans here (OTLP): 4318.")),
        ],
        None,
    ),
}


LoadOptions = Annotated[Mapping[str, Any], Group(_LOAD, dict)]
"""What is asked of a server."""
HowOptions = Annotated[Mapping[str, Any], Group(_HOW, dict)]
"""How it is asked."""
