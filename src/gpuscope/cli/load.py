"""`gpuscope load`: how a running server serves, measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuscope.document.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuscope.serving.result import Serving
    from gpuscope.serving.slo import Limit

VOID = 1
"""Exit code of a run in which the client was the limit."""


def register(app: typer.Typer) -> None:
    """Add the `load` command to the application."""
    short = Text("Load a running server, and measure how it serves.")
    app.command("load", short_help=short)(load_command)


def load_command(
    url: Annotated[str, typer.Argument(help=Text("Of an OpenAI-compatible server."))],
    model: Annotated[
        str, typer.Option(help=Text("Name of the model there; default: the one it has."))
    ] = "",
    rate: Annotated[
        float | None, typer.Option(help=Text("Requests a second, sent at their times."))
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(help=Text("Instead: so many requests in flight."))
    ] = None,
    lasts: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help=Text("How long: 60s, 5m [60s]."))
    ] = None,
    requests: Annotated[int | None, typer.Option(help=Text("How many requests, at most."))] = None,
    input: Annotated[
        str, typer.Option(help=Text("Tokens of a prompt: 512, 256..1024, lognormal:512,0.8."))
    ] = "512",
    answer: Annotated[
        str, typer.Option(help=Text("Answer tokens, likewise. --output N is the same."))
    ] = "128",
    arrivals: Annotated[
        str,
        typer.Option(help=Text("poisson, gamma, constant, steps:2x30,8x30, conversations:5x20.")),
    ] = "poisson",
    burstiness: Annotated[float, typer.Option(help=Text("Of gamma arrivals."))] = 1.0,
    shared: Annotated[int, typer.Option(help=Text("Tokens that prompts begin with alike."))] = 0,
    groups: Annotated[int, typer.Option(help=Text("How many such beginnings."))] = 1,
    seed: Annotated[int, typer.Option(help=Text("Same seed, same requests."))] = 0,
    slo: Annotated[
        str | None, typer.Option(help=Text('Limits that users are promised: "ttft<500ms".'))
    ] = None,
    api: Annotated[str, typer.Option(help=Text("completions or chat."))] = "completions",
    prompts: Annotated[
        str | None, typer.Option(help=Text("ids or words [what the server takes]."))
    ] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(help=Text("Folder of a local one, for exact lengths."))
    ] = None,
    timeout: Annotated[
        str, typer.Option(help=Text("The longest that an answer may take."))
    ] = "10m",
    engine_log: Annotated[
        Path | None, typer.Option(metavar="FILE", help=Text("vLLM's log of its iterations."))
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help=Text("Save the run, for compare."))
    ] = None,
    save: Annotated[Path | None, typer.Option(hidden=True)] = None,  # its former name
    as_json: Annotated[bool, typer.Option("--json", help=Text("Print the JSON document."))] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help=Text("No progress."))] = False,
    lang: Annotated[str | None, typer.Option(help=Text("Language: en or zh."))] = None,
) -> None:
    """Load a running server, and measure how it serves, request by request."""
    from gpuscope.atomic import check_writable
    from gpuscope.cli.progress import progress
    from gpuscope.program.lengths import answer_and_file
    from gpuscope.serving.client.load_test import load_test, parse_time
    from gpuscope.serving.slo import parse_slo
    from gpuscope.views.i18n import choose_language, tr

    language = choose_language(lang)
    answer, output = answer_and_file(answer, output)
    output = output or save
    if output is not None:
        check_writable(output)
    limits = parse_slo(slo) if slo else ()
    with progress(quiet) as say:
        found = load_test(
            url,
            model=model,
            rate=rate,
            concurrency=concurrency,
            for_s=parse_time(lasts) if lasts else None,
            count=requests,
            input=input,
            output=answer,
            arrivals=arrivals,
            burstiness=burstiness,
            shared=shared,
            groups=groups,
            seed=seed,
            api=api,
            prompts=prompts,
            tokenizer=str(tokenizer) if tokenizer else None,
            timeout_s=parse_time(timeout),
            engine_log=str(engine_log) if engine_log else None,
            on_progress=lambda done: say(tr("{count} requests done", language, count=done)),
        )
    _show(found, limits, output, as_json, language, quiet)
    if "void" in found.client:
        raise typer.Exit(VOID)


def _show(
    found: Serving,
    limits: Sequence[Limit],
    save: Path | None,
    as_json: bool,
    lang: str,
    quiet: bool,
) -> None:
    from gpuscope.cli.progress import note
    from gpuscope.views.i18n import tr

    if save is not None:
        from gpuscope.serving.document import save_serving

        save_serving(found, save)
        note(tr("Wrote {path}", lang, path=save), quiet)
    if as_json:
        from gpuscope.document.plain import dumps
        from gpuscope.serving.document import serving_document

        typer.echo(dumps(serving_document(found)))
        return
    from gpuscope.views.load import load_blocks
    from gpuscope.views.terminal import make_console
    from gpuscope.views.terminal.blocks.render import render_block

    console = make_console()
    for block in load_blocks(found, limits):
        console.print(render_block(block, lang))
