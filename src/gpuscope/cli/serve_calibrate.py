"""`gpuscope serve --calibrate`: an engine's constants from measured runs, kept in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import typer

from gpuscope.cli.explanations import Shown, show, write_page
from gpuscope.cli.progress import note

_OF_ENGINE = ("engine", "tp", "ep", "pp", "replicas", "dtype", "kv_dtype", "kv_blocks", "policy")
_SETTINGS = ("max_tokens", "max_sequences")


def show_calibration(
    files: Sequence[str], model: str, on: str, asked: Mapping[str, Any], shown: Shown
) -> None:
    """Fit, tell what moved, and keep the result where `--output` says.

    Args:
        files: measured runs.
        model, on: what was served; "" for the model that the runs name.
        asked: options of `serve`, of which those of the engine count.
        shown: where it goes.
    """
    from gpuscope.atomic import check_writable
    from gpuscope.document.plain import dumps
    from gpuscope.serving.calibrate import calibrate_files
    from gpuscope.serving.calibrate_story import calibration_story
    from gpuscope.serving.tuning import save_tuning, tuning_document
    from gpuscope.views.i18n import choose_language, tr

    for path in (shown.output, shown.report):
        if path is not None:
            check_writable(path)
    how = {name: asked[name] for name in _OF_ENGINE}
    settings = {name: asked[name] for name in _SETTINGS}
    fit = calibrate_files(files, model or None, on, settings=settings, **how)
    if shown.output is not None:
        save_tuning(fit.tuning, shown.output)
        language = choose_language(shown.lang)
        note(tr("Wrote {path}", language, path=shown.output), shown.quiet)
    if shown.as_json:
        typer.echo(dumps(tuning_document(fit.tuning)))
        write_page(calibration_story(fit), shown)
        return
    show(lambda: calibration_story(fit), replace(shown, output=None))
