"""What `gpuscope plan --task serve` asks beside the rest, and its answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuscope.cli.groups import Group
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.cli.explanations import Shown
    from gpuscope.document.blocks import Explanation


@dataclass(frozen=True, slots=True)
class Served:
    """What is served, and what is promised."""

    rate: float
    input: str
    answer: str
    slo: str | None
    engine: str
    dtype: str
    kv_dtype: str


_MEMBERS: dict[str, tuple[Any, Any]] = {
    "rate": (Annotated[float, typer.Option(help=Text("serve: requests each second."))], 0.0),
    "input": (
        Annotated[str, typer.Option("--input", help=Text("serve: prompt tokens, as in serve."))],
        "1024",
    ),
    "answer": (
        Annotated[str, typer.Option(help=Text("serve: answer tokens. --output N is the same."))],
        "256",
    ),
    "slo": (
        Annotated[
            str | None,
            typer.Option(metavar="LIMITS", help=Text('serve: limits: "ttft<1s,tpot<20ms".')),
        ],
        None,
    ),
    "engine": (
        Annotated[str, typer.Option(help=Text("serve: vllm, sglang or tensorrt-llm."))],
        "vllm",
    ),
    "dtype": (
        Annotated[str, typer.Option(help=Text("serve: of the weights: bfloat16,fp8."))],
        "bfloat16",
    ),
    "kv_dtype": (
        Annotated[str, typer.Option(help=Text("serve: of keys and values: bfloat16,fp8."))],
        "bfloat16",
    ),
}

ServedLoad = Annotated[Served, Group(_MEMBERS, Served)]
"""What is served."""


def show_serving(
    model: str,
    on: str,
    devices: str,
    load: Served,
    simulate: int,
    prices: Path | None,
    why: str | None,
    framework: str | None,
    shown: Shown,
) -> None:
    """Answer a question of serving where the user wants it."""
    from gpuscope.cli.explanations import show
    from gpuscope.cli.simulating import simulating
    from gpuscope.planning.serving.explanation import explained_serving
    from gpuscope.planning.serving.launch import check_framework
    from gpuscope.planning.serving.search import question_of_serving, search_serving
    from gpuscope.serving.lengths import answer_and_file
    from gpuscope.views.i18n import choose_language

    answer, output = answer_and_file(load.answer, shown.output)
    lang = choose_language(shown.lang)
    if framework is not None:
        check_framework(framework)
    question = question_of_serving(
        model,
        on=on,
        devices=devices,
        rate=load.rate,
        input=load.input,
        answer=answer,
        slo=load.slo,
        engine=load.engine,
        dtype=load.dtype,
        kv_dtype=load.kv_dtype,
        simulate=simulate,
        prices=prices,
    )

    def make() -> Explanation:
        with simulating(shown.quiet, lang) as tell:
            return explained_serving(search_serving(question, tell), why, framework)

    show(make, replace(shown, output=output))
