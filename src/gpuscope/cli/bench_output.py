"""What `gpuscope bench` shows: cards, lists, comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gpuscope.document.text import Text, render

if TYPE_CHECKING:
    from gpuscope.measurement.bench.run import Progress
    from gpuscope.measurement.bench.types import BenchResult


@dataclass(frozen=True, slots=True)
class Shown:
    """How results are shown."""

    as_json: bool
    report: Path | None
    lang: str
    quiet: bool

    def check(self) -> None:
        """Refuse a report that could not be written, before the work.

        Raises:
            InputFileError: it cannot be written.
        """
        if self.report is not None:
            from gpuscope.atomic import check_writable

            check_writable(self.report)


def show_list(shown: Shown) -> None:
    """List the benches."""
    from dataclasses import asdict

    from gpuscope.measurement.bench.registry import benches
    from gpuscope.views.bench import bench_list
    from gpuscope.views.terminal import make_console

    if shown.as_json:
        from gpuscope.document.plain import dumps

        rows = [{k: v for k, v in asdict(b).items() if k != "run"} for b in benches()]
        typer.echo(dumps(rows, indent=2))
    else:
        make_console().print(bench_list(benches(), shown.lang))


def show_result(result: BenchResult, shown: Shown, folder: Path | None) -> None:
    """Show one result."""
    from gpuscope.views.bench import bench_card
    from gpuscope.views.bench_document import bench_document
    from gpuscope.views.terminal import make_console

    if shown.report is not None:
        from gpuscope.views.bench_page import write_bench_page

        write_bench_page(result, shown.report, shown.lang)
    if shown.as_json:
        from gpuscope.document.plain import dumps

        typer.echo(dumps(bench_document(result)))
    else:
        make_console().print(bench_card(result, shown.lang, str(folder) if folder else ""))


def show_comparison(first: Path, second: Path, shown: Shown) -> None:
    """Compare two saved results."""
    from gpuscope.measurement.bench.compare import compare_benches
    from gpuscope.measurement.bench.store import load_bench
    from gpuscope.views.bench_compare import comparison_card, comparison_document
    from gpuscope.views.terminal import make_console

    found = compare_benches(load_bench(first), load_bench(second))
    if shown.as_json:
        from gpuscope.document.plain import dumps

        typer.echo(dumps(comparison_document(found)))
    else:
        make_console().print(comparison_card(found, (str(first), str(second)), shown.lang))


def progress_text(progress: Progress, lang: str) -> str:
    """Return what is going on, in one line."""
    from gpuscope.views.i18n import tr

    return tr(
        "{title} ({number} of {total}): {points} points …",
        lang,
        title=render(progress.bench.title, lang),
        number=progress.number,
        total=progress.of,
        points=progress.points,
    )


def warn(notice: Text, shown: Shown) -> None:
    """Tell at once what may disturb the figures."""
    from gpuscope.cli.progress import note

    note(render(notice, shown.lang), shown.quiet)
