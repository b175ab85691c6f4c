"""What `gpuscope serve` asks: the load, what serves it, and what else is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from gpuscope.cli.groups import Group
from gpuscope.document.text import Text

_LOAD: dict[str, tuple[Any, Any]] = {
    "rate": (Annotated[float, typer.Option(help=Text("Requests each second, on average."))], 0.0),
    "concurrency": (
        Annotated[
            str | None,
            typer.Option(metavar="N,...", help=Text("Requests in flight (closed loop); several.")),
        ],
        None,
    ),
    "arrivals": (
        Annotated[
            str,
            typer.Option(
                help=Text(
                    "poisson, gamma, constant, steps:2x30,8x30, conversations:5x20, or a file."
                )
            ),
        ],
        "poisson",
    ),
    "input": (
        Annotated[
            str,
            typer.Option("--input", help=Text("Prompt tokens: 1024, 256..2048, lognormal:M,S.")),
        ],
        "1024",
    ),
    "answer": (
        Annotated[
            str,
            typer.Option("--answer", help=Text("Answer tokens, likewise. --output N is the same.")),
        ],
        "256",
    ),
    "requests": (Annotated[int, typer.Option(help=Text("How many requests."))], 1000),
    "seed": (Annotated[int, typer.Option(help=Text("Of all that is drawn."))], 0),
    "burstiness": (Annotated[float, typer.Option(help=Text("Of gamma arrivals."))], 1.0),
    "shared": (Annotated[int, typer.Option(help=Text("Tokens that all prompts begin with."))], 0),
    "slo": (
        Annotated[
            str | None, typer.Option(metavar="LIMITS", help=Text('Limits: "ttft<500ms,tpot<30ms".'))
        ],
        None,
    ),
}

_ENGINE: dict[str, tuple[Any, Any]] = {
    "engine": (
        Annotated[
            str,
            typer.Option(
                help=Text(
                    "vllm, sglang, tensorrt-llm, onnxruntime, tensorrt, static, or Triton's "
                    "config.pbtxt."
                )
            ),
        ],
        "vllm",
    ),
    "tp": (Annotated[int | None, typer.Option(help=Text("Devices of a replica."))], None),
    "ep": (Annotated[int, typer.Option(help=Text("Ranks that share the experts."))], 1),
    "attention_dp": (
        Annotated[
            int,
            typer.Option(
                help=Text(
                    "Groups of --tp that attend to requests of their own, and share the experts."
                )
            ),
        ],
        1,
    ),
    "pp": (
        Annotated[int, typer.Option(help=Text("Stages of a replica, of --tp devices each."))],
        1,
    ),
    "replicas": (Annotated[int | None, typer.Option(help=Text("Copies of the model."))], None),
    "dtype": (
        Annotated[str, typer.Option(help=Text("Of the weights: bfloat16, fp8, fp4, int4."))],
        "bfloat16",
    ),
    "kv_dtype": (
        Annotated[str, typer.Option(help=Text("Of keys and values: bfloat16 or fp8."))],
        "bfloat16",
    ),
    "kv_blocks": (
        Annotated[int | None, typer.Option(help=Text("Blocks of keys and values, where known."))],
        None,
    ),
    "max_tokens": (
        Annotated[int | None, typer.Option(help=Text("Tokens of an iteration, at most."))],
        None,
    ),
    "max_sequences": (
        Annotated[int | None, typer.Option(help=Text("Sequences at work, at most."))],
        None,
    ),
    "router": (
        Annotated[
            str | None,
            typer.Option(
                help=Text(
                    "Which copy gets a request: round-robin, least-load, least-waiting, prefix."
                )
            ),
        ],
        None,
    ),
    "prefill": (
        Annotated[
            str | None,
            typer.Option(help=Text("Devices for the prompts, with --decode for the rest.")),
        ],
        None,
    ),
    "decode": (
        Annotated[str | None, typer.Option(help=Text("Devices for the answers, with --prefill."))],
        None,
    ),
    "speculate": (
        Annotated[
            str | None,
            typer.Option(
                metavar="k=N,accept=P", help=Text("Tokens drafted, and the share accepted.")
            ),
        ],
        None,
    ),
    "policy": (
        Annotated[
            str | None,
            typer.Option(help=Text("Of the scheduler: fcfs, priority, lpm, max-utilization.")),
        ],
        None,
    ),
    "graphs": (
        Annotated[bool, typer.Option("--graphs/--no-graphs", help=Text("Decode by CUDA graphs."))],
        True,
    ),
    "calibration": (
        Annotated[
            Path | None, typer.Option(metavar="FILE", help=Text("Use what --calibrate kept."))
        ],
        None,
    ),
}

_ALSO: dict[str, tuple[Any, Any]] = {
    "calibrate": (
        Annotated[
            str | None,
            typer.Option(
                metavar="FILE,...", help=Text("Fit host and efficiency to measured runs.")
            ),
        ],
        None,
    ),
    "changes": (
        Annotated[
            bool, typer.Option("--changes", help=Text("Serve the load again with each change."))
        ],
        False,
    ),
    "trace": (
        Annotated[
            Path | None,
            typer.Option(
                metavar="FILE", help=Text("Write the run for ui.perfetto.dev (.json[.gz]).")
            ),
        ],
        None,
    ),
    "pbtxt": (
        Annotated[
            Path | None,
            typer.Option(
                metavar="FILE", help=Text("Write static batching as Triton's config.pbtxt.")
            ),
        ],
        None,
    ),
}


@dataclass(frozen=True, slots=True)
class Also:
    """What is wanted beside the prediction.

    Attributes:
        calibrate: measured runs to fit constants to, instead.
        changes: serve the load again with each change.
        trace: where the run goes for Perfetto.
        pbtxt: where Triton's configuration goes.
    """

    calibrate: str | None
    changes: bool
    trace: Path | None
    pbtxt: Path | None


LoadOptions = Annotated[Mapping[str, Any], Group(_LOAD, dict)]
"""What is asked of a server, by the names of `gs.serve`; `answer` is its `output`."""
EngineOptions = Annotated[Mapping[str, Any], Group(_ENGINE, dict)]
"""What serves, by the names of `gs.serve`."""
AlsoOptions = Annotated[Also, Group(_ALSO, Also)]
"""What is wanted beside."""
