"""`gpuscope serve`: how an engine will serve a model, without the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuscope.cli.explanations import On, Shown, WhereWithoutFigures
from gpuscope.cli.groups import grouped
from gpuscope.cli.serve_arguments import Also, AlsoOptions, EngineOptions, LoadOptions
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.serving.result import Serving
    from gpuscope.serving.slo import Limit

# What does the work is imported when the command runs, so that --help stays fast.


def register(app: typer.Typer) -> None:
    """Add the `serve` command to the application."""
    short = Text("Predict how an engine serves a model: latency, throughput, what limits.")
    app.command("serve", short_help=short)(grouped(serve_command))


def serve_command(
    model: Annotated[
        str, typer.Argument(help=Text("A decoder: a built-in name, or a config.json."))
    ] = "",
    on: On = "h200",
    *,
    load: LoadOptions,
    engine: EngineOptions,
    also: AlsoOptions,
    shown: WhereWithoutFigures,
) -> None:
    """Predict how an engine serves a model: TTFT, TPOT, throughput, goodput, and what limits."""
    from gpuscope.program.lengths import answer_and_file

    answer, output = answer_and_file(load["answer"], shown.output)
    asked: dict[str, Any] = {**load, **engine, "output": answer}
    del asked["answer"]
    asked["concurrency"] = _numbers(load["concurrency"])
    shown = replace(shown, output=output)
    if also.calibrate is not None:
        from gpuscope.cli.serve_calibrate import show_calibration

        show_calibration(also.calibrate.split(","), model, on, asked, shown)
    elif not model:
        raise _no_model()
    else:
        _serve(model, on, asked, also, shown)


def _serve(model: str, on: str, asked: Mapping[str, Any], also: Also, shown: Shown) -> None:
    """Serve, write what is wanted, and tell."""
    from gpuscope.atomic import check_writable
    from gpuscope.serving.gains import gains
    from gpuscope.serving.slo import parse_slo
    from gpuscope.serving.verb import serve

    limits = parse_slo(asked["slo"]) if asked["slo"] else ()
    for path in (shown.output, also.trace, also.pbtxt, shown.report):
        if path is not None:
            check_writable(path)
    found = serve(model, on, **asked)
    _write(found, also, shown)
    wanted = also.changes and (shown.report is not None or not shown.as_json)
    tried = gains(model, on, asked) if wanted and _only(found) else ()
    _tell(found, limits, tried, replace(shown, output=None))


def _write(found: list[Serving], also: Also, shown: Shown) -> None:
    """The files that were asked for."""
    from gpuscope.cli.progress import note
    from gpuscope.views.i18n import choose_language, tr

    language = choose_language(shown.lang)
    for path, write in ((also.pbtxt, _write_pbtxt), (also.trace, _trace), (shown.output, _save)):
        if path is not None:
            write(found, path)
            note(tr("Wrote {path}", language, path=path), shown.quiet)


def _tell(
    found: list[Serving], limits: Sequence[Limit], tried: Sequence[Any], shown: Shown
) -> None:
    from gpuscope.cli.explanations import show, write_page
    from gpuscope.serving.story import story

    paper = shown.report is not None  # a terminal is too small for charts over time
    if not shown.as_json:
        show(lambda: story(found, limits, paper, tried), shown)
        return
    _print(found)
    if paper:
        write_page(story(found, limits, paper, tried), shown)


def _no_model() -> Exception:
    from gpuscope.errors import InvalidValueError

    return InvalidValueError(
        Text("No model is named."), "", Text("Type: gpuscope serve llama-3.1-8b --rate 8")
    )


def _numbers(text: str | None) -> tuple[int, ...]:
    from gpuscope.errors import InvalidValueError

    try:
        return tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise InvalidValueError(
            Text("'{text}' is no list of numbers.", text=text),
            "",
            Text("Type: --concurrency 1,4,16"),
        ) from None


def _save(found: list[Serving], path: Path) -> None:
    from gpuscope.serving.document import save_serving

    save_serving(_only(found), path)


def _trace(found: list[Serving], path: Path) -> None:
    from gpuscope.serving.perfetto import write_serving_trace

    write_serving_trace(_only(found), path)


def _write_pbtxt(found: list[Serving], path: Path) -> None:
    from gpuscope.atomic import write_atomically
    from gpuscope.errors import UnsupportedError
    from gpuscope.serving.triton_config import config_of, config_text

    config = config_of(found[0])
    if config is None:
        raise UnsupportedError(
            Text("Triton's dynamic batching is not what {engine} does.", engine=found[0].engine),
            "",
            Text("Type: --engine static --pbtxt config.pbtxt"),
        )
    write_atomically(path, config_text(config))


def _only(found: list[Serving]) -> Serving:
    from gpuscope.errors import InvalidValueError

    if len(found) > 1:
        raise InvalidValueError(
            Text("A file holds one run, and there are {count}.", count=len(found)),
            "",
            Text("Give one concurrency, or print all with --json."),
        )
    return found[0]


def _print(found: list[Serving]) -> None:
    from gpuscope.document.plain import dumps
    from gpuscope.serving.document import serving_document

    documents = [serving_document(run) for run in found]
    whole = {"schema": "gpuscope.servings", "version": 1, "runs": documents}
    typer.echo(dumps(documents[0] if len(documents) == 1 else whole))
