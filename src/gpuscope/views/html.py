"""The report: one HTML file with its data inside, which needs no network and no server.

The page's own sources are in `page/`: a template, a style sheet, and the scripts in `page/script/`
that are joined in the order of `SCRIPTS`. There is no build step.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from gpuscope.analysis import fold_layers
from gpuscope.atomic import write_atomically
from gpuscope.errors import InvalidValueError
from gpuscope.run import Run
from gpuscope.views.compare import distinct_names
from gpuscope.views.document import dumps, plain, run_document
from gpuscope.views.i18n import choose_language
from gpuscope.views.sentences import sentence
from gpuscope.views.text_zh import CHINESE
from gpuscope.views.text_zh_page import PAGE_CHINESE

SCRIPTS: tuple[str, ...] = (
    "core.js", "format.js", "colours.js", "summary.js", "tables.js", "timeline_data.js",
    "timeline.js", "timeline_input.js", "roofline.js", "modules.js", "memory.js", "tasks.js",
    "recorded.js",
    "main.js",
)  # fmt: skip
"""The page's scripts, in the order in which they are joined."""

MAX_EVENTS = 100_000
"""Most timeline events that a page holds for one run."""


def write_report(runs: Run | Sequence[Run], path: str | Path, lang: str | None = None) -> None:
    """Write a report of one run, or of several side by side.

    Args:
        runs: one run or several.
        path: the HTML file; it is there in full or not at all.
        lang: language that the page opens in ("en", "zh"); the reader can switch. None: as the
            environment says.

    Raises:
        InvalidValueError: no run.
        InputFileError: the file cannot be written.
    """
    write_atomically(path, render_report(runs, lang))


def render_report(runs: Run | Sequence[Run], lang: str | None = None) -> str:
    """Return the report's HTML; arguments and errors as `write_report`."""
    listed = [runs] if isinstance(runs, Run) else list(runs)
    if not listed:
        raise InvalidValueError("There is no run to report.")
    page = files("gpuscope.views").joinpath("page")
    script = "\n".join(page.joinpath("script", name).read_text("utf-8") for name in SCRIPTS)
    parts = {
        "%TITLE%": html.escape(f"{listed[0].name} · {listed[0].target} · gpuscope"),
        "%STYLE%": page.joinpath("style.css").read_text("utf-8").rstrip(),
        "%DATA%": embedded(page_data(listed, choose_language(lang))),
        "%SCRIPT%": '"use strict";\n(() => {\n' + script + "})();",
    }
    template = page.joinpath("template.html").read_text("utf-8")
    # One pass over the template, so that nothing inside the data is taken for a placeholder.
    pieces, rest = [], template
    for mark, text in parts.items():
        before, _, rest = rest.partition(mark)
        pieces += [before, text]
    return "".join((*pieces, rest))


def page_data(runs: Sequence[Run], lang: str) -> dict[str, Any]:
    """Return what the page's scripts read: documents of the runs, names, and the Chinese texts."""
    return {
        "lang": lang,
        "names": distinct_names(runs, lang),
        "runs": [
            {
                **run_document(run, max_events=MAX_EVENTS),
                "modules_folded": plain(fold_layers(run.analysis.modules)),
                "sentences_zh": _sentences_zh(run),
            }
            for run in runs
        ],
        "strings": {**CHINESE, **PAGE_CHINESE},
    }


def _sentences_zh(run: Run) -> dict[str, str]:
    """Finished sentences of a run in Chinese, by the English one: the reader can switch."""
    energy, used = run.analysis.energy, run.analysis.utilisation
    told = [*run.assumptions]
    told += [energy.source] if energy is not None else []
    told += [used.definition] if used is not None else []
    chinese = {text: sentence(text, "zh") for text in told}
    return {text: said for text, said in chinese.items() if said != text}


def embedded(data: dict[str, Any]) -> str:
    """Return JSON that can stand inside a script element: no "<" that could end it."""
    return (
        dumps(data)
        .replace("<", "\\u003c")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )
