"""What `gpuscope plan --task serve` asks beside the rest, and its answer."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuscope.cli.groups import Group
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.cli.explanations import Shown
    from gpuscope.cli.plan_asked import Asked, Wanted
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
    users: int | None
    speed: float | None


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
    "users": (
        Annotated[
            int | None, typer.Option(help=Text("serve: users who read at once, for --rate."))
        ],
        None,
    ),
    "speed": (
        Annotated[
            float | None, typer.Option(help=Text("serve: tokens a second for each of --users."))
        ],
        None,
    ),
}

ServedLoad = Annotated[Served, Group(_MEMBERS, Served)]
"""What is served."""


_OF_DEVICES = ("on", "devices", "prices", "grid", "device_set", "simulate", "limit")
"""What serving takes of that which every task is asked."""


def show_serving(
    model: str, asked: Asked, load: Served, wanted: Wanted, no_cache: bool, shown: Shown
) -> bool:
    """Answer a question of serving where the user wants it.

    Returns:
        Whether a plan is sure enough to keep every limit.
    """
    from gpuscope.capturing import keeping
    from gpuscope.cli.explanations import show
    from gpuscope.cli.plan_asked import refuse_choosing
    from gpuscope.cli.simulating import simulating
    from gpuscope.planning.serving.check import check_server, explained_server
    from gpuscope.planning.serving.existing import existing_server
    from gpuscope.planning.serving.explanation import explained_serving
    from gpuscope.planning.serving.launch import check_framework
    from gpuscope.planning.serving.search import question_of_serving, search_serving
    from gpuscope.planning.serving.sliced import is_sliced, question_of_slices, search_slices
    from gpuscope.planning.serving.sliced_explanation import (
        explained_slices,
        refuse_of_whole_devices,
    )
    from gpuscope.planning.serving.untried import SPEECH
    from gpuscope.program.lengths import answer_and_file
    from gpuscope.views.i18n import choose_language

    framework, why = wanted.framework, wanted.why
    answer, output = answer_and_file(load.answer, shown.output)
    lang = choose_language(shown.lang)
    if framework is not None:
        check_framework(framework)
    if why is not None:
        SPEECH.check(why)
    loaded = asdict(load) | {"answer": answer}
    sure = True
    given = {name: getattr(asked, name) for name in _OF_DEVICES}
    if is_sliced(asked.on):
        beside = (asked.prices, asked.device_set, asked.limit)
        refuse_of_whole_devices(why, any(each is not None for each in beside))
        kept = {name: value for name, value in given.items() if value is not None}
        sliced = question_of_slices(model, **kept, **loaded)

        def make() -> Explanation:
            nonlocal sure
            with simulating(shown.quiet, lang) as tell:
                packed = search_slices(sliced, tell)
            sure = packed.best is not None
            return explained_slices(packed, framework)

    elif wanted.check is not None:
        refuse_choosing(wanted)
        existing = existing_server(question_of_serving(model, **given, **loaded), wanted.check)

        def make() -> Explanation:
            with simulating(shown.quiet, lang) as tell:
                return explained_server(check_server(existing, tell))

    else:
        question = question_of_serving(model, **given, **loaded)

        def make() -> Explanation:
            nonlocal sure
            with simulating(shown.quiet, lang) as tell:
                found = search_serving(question, tell)
                sure = found.best is not None
                return explained_serving(found, why, framework)

    with keeping(not no_cache):
        show(make, replace(shown, output=output))
    return sure
