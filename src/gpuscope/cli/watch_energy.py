"""`gpuscope watch --energy -- COMMAND`, and the files that go with the exporter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuscope.cli.progress import note


def run_and_tell(
    command: Sequence[str],
    *,
    grid: str | None,
    price: float | None,
    output: Path | None,
    interval_s: float | None,
    gpus: Sequence[int] | None,
    lang: str,
) -> int:
    """Run a command; tell what it took on the standard error, which is not the command's result.

    Returns:
        The command's exit code.
    """
    from gpuscope.atomic import check_writable
    from gpuscope.hardware.grid import grid_factor
    from gpuscope.views.terminal import make_console
    from gpuscope.views.watch_energy import energy_document, render_energy
    from gpuscope.watch.energy_of import run

    factor = grid_factor(grid)
    if output is not None:
        check_writable(output)
    report = run(
        command,
        grid=factor,
        price_per_kwh=price,
        interval_s=0.5 if interval_s is None else interval_s,
        indices=gpus,
    )
    make_console(stderr=True).print(render_energy(report, lang))
    if output is not None:
        from gpuscope.atomic import write_document

        write_document(energy_document(report), output)
        _tell_written(output, lang)
    return report.exit_code


def write_files(dashboard: Path | None, alerts: Path | None, lang: str) -> None:
    """Write the Grafana dashboard and the alert rules, whichever is wanted."""
    from gpuscope.atomic import check_writable, write_atomically
    from gpuscope.watch.dashboards import ALERTS, DASHBOARD

    wanted = {dashboard: DASHBOARD, alerts: ALERTS}
    targets = {path: file for path, file in wanted.items() if path is not None}
    for path in targets:
        check_writable(path)
    for path, file in targets.items():
        write_atomically(path, file.read_bytes())
        _tell_written(path, lang)


def _tell_written(path: Path, lang: str) -> None:
    from gpuscope.views.i18n import tr

    note(tr("Wrote {path}", lang, path=path), quiet=False)
