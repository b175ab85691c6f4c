"""Invariants of a run: what they look at, and the table of what they found."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text as Line

from gpuscope.document.language import LANGUAGES
from gpuscope.document.quantities import Count
from gpuscope.document.text import render
from gpuscope.invariants import Checked, Output, Violation, check
from gpuscope.invariants.book import Value
from gpuscope.run import Run
from gpuscope.views.i18n import tr
from gpuscope.views.report.device_facts import device_of_run
from gpuscope.views.terminal.console import make_console
from gpuscope.views.terminal.layout import left, section, table
from gpuscope.views.terminal.run import render_run


def check_run(run: Run, *, what_if: bool = True) -> Checked:
    """Hold everything that is shown of a run against itself and against its device.

    Args:
        run: predicted or measured.
        what_if: look at the page's view "What if" too, which takes seconds.
    """
    return check(output_of(run, what_if=what_if))


def output_of(run: Run, page: Mapping[str, Any] | None = None, *, what_if: bool = True) -> Output:
    """Return a run with its page, its screens in every language and its pictures.

    Args:
        run: predicted or measured.
        page: the data of a page whose first run it is; made here where it is not given.
        what_if: whether the page made here has the view "What if".
    """
    from gpuscope.views.report.data import report_data
    from gpuscope.views.run_figures.figures import run_figures

    return Output(
        run,
        page if page is not None else report_data([run], "en", what_if=what_if),
        {lang: _screen(run, lang) for lang in LANGUAGES},
        run_figures(run),
        device_of_run(run),
    )


def _screen(run: Run, lang: str) -> str:
    written = io.StringIO()
    make_console(written).print(render_run(run, lang))
    return written.getvalue()


def render_checked(checked: Checked, lang: str = "en") -> RenderableType:
    """Return the violations as a table; one line where there are none."""
    count = render(Count(checked.count), lang)
    if not checked.violations:
        return Line(tr("{count} comparisons, none violated.", lang, count=count), style="green")
    rows = table(
        left(tr("invariant", lang)),
        left(tr("what", lang)),
        left(tr("found", lang)),
        left(tr("must be", lang)),
    )
    for each in checked.violations:
        rows.add_row(
            each.rule, render(each.what, lang), _shown(each.found, lang), _must(each, lang)
        )
    about = tr(
        "{violated} of {count} comparisons violated. Names are fields of the JSON document.",
        lang,
        violated=render(Count(len(checked.violations)), lang),
        count=count,
    )
    return section(tr("Invariants", lang), about, rows)


def _must(violation: Violation, lang: str) -> str:
    return f"{violation.relation} {_shown(violation.wanted, lang)}".strip()


def _shown(value: Value, lang: str) -> str:
    return render(value, lang)
