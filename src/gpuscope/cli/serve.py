"""`gpuscope serve`: how an engine will serve a model, without the device."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuscope.cli.explanations import AsJson, Lang, On, Output, Quiet, Report
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.serving.result import Serving

# What does the work is imported when the command runs, so that --help stays fast.


def register(app: typer.Typer) -> None:
    """Add the `serve` command to the application."""
    short = Text("Predict how an engine serves a model: latency, throughput, what limits.")
    app.command("serve", short_help=short)(serve_command)


def serve_command(
    model: Annotated[
        str, typer.Argument(help=Text("A decoder: a built-in name, or a config.json."))
    ] = "",
    on: On = "h200",
    engine: Annotated[
        str,
        typer.Option(
            help=Text(
                "vllm, sglang, tensorrt-llm, onnxruntime, tensorrt, static, or Triton's "
                "config.pbtxt."
            )
        ),
    ] = "vllm",
    rate: Annotated[float, typer.Option(help=Text("Requests each second, on average."))] = 0.0,
    concurrency: Annotated[
        str | None,
        typer.Option(metavar="N,...", help=Text("Requests in flight (closed loop); several.")),
    ] = None,
    arrivals: Annotated[
        str,
        typer.Option(
            help=Text("poisson, gamma, constant, steps:2x30,8x30, conversations:5x20, or a file.")
        ),
    ] = "poisson",
    input_: Annotated[
        str, typer.Option("--input", help=Text("Prompt tokens: 1024, 256..2048, lognormal:M,S."))
    ] = "1024",
    output_: Annotated[
        str, typer.Option("--answer", help=Text("Answer tokens, likewise. --output N is the same."))
    ] = "256",
    requests: Annotated[int, typer.Option(help=Text("How many requests."))] = 1000,
    seed: Annotated[int, typer.Option(help=Text("Of all that is drawn."))] = 0,
    shared: Annotated[int, typer.Option(help=Text("Tokens that all prompts begin with."))] = 0,
    slo: Annotated[
        str | None, typer.Option(metavar="LIMITS", help=Text('Limits: "ttft<500ms,tpot<30ms".'))
    ] = None,
    tp: Annotated[int | None, typer.Option(help=Text("Devices of a replica."))] = None,
    ep: Annotated[int, typer.Option(help=Text("Ranks that share the experts."))] = 1,
    attention_dp: Annotated[
        int,
        typer.Option(
            help=Text("Groups of --tp that attend to requests of their own, and share the experts.")
        ),
    ] = 1,
    replicas: Annotated[int | None, typer.Option(help=Text("Copies of the model."))] = None,
    dtype: Annotated[
        str, typer.Option(help=Text("Of the weights: bfloat16, fp8, fp4, int4."))
    ] = "bfloat16",
    kv_dtype: Annotated[
        str, typer.Option(help=Text("Of keys and values: bfloat16 or fp8."))
    ] = "bfloat16",
    kv_blocks: Annotated[
        int | None, typer.Option(help=Text("Blocks of keys and values, where known."))
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help=Text("Tokens of an iteration, at most."))
    ] = None,
    max_sequences: Annotated[
        int | None, typer.Option(help=Text("Sequences at work, at most."))
    ] = None,
    router: Annotated[
        str | None,
        typer.Option(
            help=Text("Which copy gets a request: round-robin, least-load, least-waiting, prefix.")
        ),
    ] = None,
    prefill: Annotated[
        str | None, typer.Option(help=Text("Devices for the prompts, with --decode for the rest."))
    ] = None,
    decode: Annotated[
        str | None, typer.Option(help=Text("Devices for the answers, with --prefill."))
    ] = None,
    speculate: Annotated[
        str | None,
        typer.Option(metavar="k=N,accept=P", help=Text("Tokens drafted, and the share accepted.")),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(help=Text("Of the scheduler: fcfs, priority, lpm, max-utilization.")),
    ] = None,
    calibrate: Annotated[
        str | None,
        typer.Option(metavar="FILE,...", help=Text("Fit host and efficiency to measured runs.")),
    ] = None,
    calibration: Annotated[
        Path | None, typer.Option(metavar="FILE", help=Text("Use what --calibrate kept."))
    ] = None,
    changes: Annotated[
        bool, typer.Option("--changes", help=Text("Serve the load again with each change."))
    ] = False,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=Text("Write the run for ui.perfetto.dev (.json[.gz]).")),
    ] = None,
    pbtxt: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=Text("Write static batching as Triton's config.pbtxt.")),
    ] = None,
    as_json: AsJson = False,
    output: Output = None,
    report: Report = None,
    lang: Lang = None,
    quiet: Quiet = False,
) -> None:
    """Predict how an engine serves a model: TTFT, TPOT, throughput, goodput, and what limits."""
    from gpuscope.program.lengths import answer_and_file
    from gpuscope.serving.slo import parse_slo
    from gpuscope.serving.verb import serve

    output_, output = answer_and_file(output_, output)
    limits = parse_slo(slo) if slo else ()

    asked: dict[str, Any] = {
        "engine": engine, "rate": rate, "concurrency": _numbers(concurrency),
        "arrivals": arrivals, "input": input_, "output": output_, "requests": requests,
        "seed": seed, "shared": shared, "slo": slo, "tp": tp, "ep": ep,
        "attention_dp": attention_dp, "replicas": replicas,
        "dtype": dtype, "kv_dtype": kv_dtype, "kv_blocks": kv_blocks, "router": router,
        "prefill": prefill, "decode": decode, "speculate": speculate, "policy": policy,
        "max_tokens": max_tokens, "max_sequences": max_sequences, "calibration": calibration,
    }  # fmt: skip
    from gpuscope.cli.explanations import Shown, show, write_page

    if calibrate is not None:
        from gpuscope.cli.serve_calibrate import show_calibration

        shown = Shown(as_json, output, report, None, lang, quiet)
        show_calibration(calibrate.split(","), model, on, asked, shown)
        return
    if not model:
        raise _no_model()
    from gpuscope.cli.progress import note
    from gpuscope.views.i18n import choose_language, tr

    language = choose_language(lang)
    from gpuscope.atomic import check_writable

    for path in (output, trace, pbtxt, report):
        if path is not None:
            check_writable(path)
    found = serve(model, on, **asked)
    if pbtxt is not None:
        _write_pbtxt(found[0], pbtxt)
        note(tr("Wrote {path}", language, path=pbtxt), quiet)
    if trace is not None:
        from gpuscope.serving.perfetto import write_serving_trace

        write_serving_trace(_only(found), trace)
        note(tr("Wrote {path}", language, path=trace), quiet)
    if output is not None:
        _save(found, output)
        note(tr("Wrote {path}", language, path=output), quiet)
    from gpuscope.serving.gains import gains
    from gpuscope.serving.story import story

    paper = report is not None  # a terminal is too small for charts over time
    wanted = changes and (paper or not as_json)
    tried = gains(model, on, asked) if wanted and _only(found) else ()
    shown = Shown(report=report, lang=lang, quiet=quiet)
    if as_json:
        _print(found)
        if paper:
            write_page(story(found, limits, paper, tried), shown)
        return
    show(lambda: story(found, limits, paper, tried), shown)


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


def _write_pbtxt(run: Serving, path: Path) -> None:
    from gpuscope.atomic import write_atomically
    from gpuscope.errors import UnsupportedError
    from gpuscope.serving.triton_config import config_of, config_text

    config = config_of(run)
    if config is None:
        raise UnsupportedError(
            Text("Triton's dynamic batching is not what {engine} does.", engine=run.engine),
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
