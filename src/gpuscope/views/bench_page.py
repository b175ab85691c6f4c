"""The card of a bench as one self-contained HTML file: figures, curves, facts, and the data."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from gpuscope.atomic import write_atomically
from gpuscope.document import format as units
from gpuscope.document.text import render
from gpuscope.measurement.bench.figures import figures
from gpuscope.measurement.bench.types import BenchResult, Point
from gpuscope.views.bench_chart import Curve, chart
from gpuscope.views.bench_document import bench_document
from gpuscope.views.bench_text import headline, line, word
from gpuscope.views.i18n import tr

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; padding: .2rem .8rem .2rem 0; vertical-align: top; }
td.value { text-align: right; font-weight: 600; white-space: nowrap; }
.dim { color: #64748b; } meter { width: 8rem; height: .9rem; }
meter::-webkit-meter-optimum-value { background: #2563eb; }
meter::-moz-meter-bar { background: #2563eb; }
svg { width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: currentColor; }
svg .grid { stroke: #94a3b8; stroke-opacity: .35; } svg .mid { text-anchor: middle; }
svg .end { text-anchor: end; }
"""


def _policy() -> str:
    """Say that the browser applies the page's own style, and nothing else that may stand in it."""
    own = base64.b64encode(hashlib.sha256(_STYLE.encode("utf-8")).digest()).decode("ascii")
    return f"default-src 'none'; style-src 'sha256-{own}'; base-uri 'none'; form-action 'none'"


def write_bench_page(result: BenchResult, path: str | Path, lang: str) -> None:
    """Write the page.

    Raises:
        InputFileError: the file cannot be written.
    """
    write_atomically(path, render_bench_page(result, lang))


def render_bench_page(result: BenchResult, lang: str) -> str:
    """Return the page's HTML; it needs no network and no script."""
    device = result.machine.get("device", "")
    found = figures(result)
    title = tr("Bench of {device}", lang, device=device)
    data = json.dumps(bench_document(result), ensure_ascii=False, allow_nan=False)
    parts = [
        '<!doctype html><html lang="' + lang + '"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{_policy()}">',
        f"<title>{html.escape(title)} · gpuscope</title><style>{_STYLE}</style></head><body>",
        f"<h1>{html.escape(title)}</h1><p>{html.escape(headline(found, device, lang))}</p>",
        _rows(result, lang),
        *_charts(result, lang),
        _facts(result, lang),
        # "<" cannot end the script element that holds the data
        '<script type="application/json" id="data">',
        data.replace("<", "\\u003c"),
        "</script>",
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _rows(result: BenchResult, lang: str) -> str:
    rows = []
    for figure in figures(result):
        each = line(figure, lang)
        bar = share = ""
        if each.fraction is not None:
            bar = f'<meter value="{min(1.0, each.fraction):.3f}"></meter>'
            share = units.share(each.fraction, lang)
        rows.append(
            f"<tr><td>{html.escape(each.label)}</td><td class=value>{html.escape(each.value)}</td>"
            f"<td>{bar}</td><td>{share}</td><td class=dim>{html.escape(each.limit)}</td>"
            f"<td class=dim>{html.escape(each.case)}</td></tr>"
        )
    heading = html.escape(tr("What this machine reaches", lang))
    return f"<h2>{heading}</h2><table>{''.join(rows)}</table>" if rows else ""


def _charts(result: BenchResult, lang: str) -> Iterable[str]:
    squares = [
        p for p in result.of("matmul", "mm") if p.state == "hot" and p.params.get("set") == "square"
    ]
    yield _section(
        tr("Matrix products by size (hot)", lang),
        chart(
            _curves(squares, "dtype", "m", lambda p: p.flops_per_s, lang),
            x_text=lambda x: f"{x:.0f}",
            y_text=lambda y: units.flop_rate(y, lang),
            x_label=tr("side", lang),
        ),
    )
    sets = [p for p in result.of("memory") if p.state == "hot"]
    yield _section(
        tr("Bandwidth by working set (hot)", lang),
        chart(
            _curves(sets, "op", "mib", lambda p: p.bytes_per_s, lang),
            x_text=lambda x: units.size(x * 2**20, lang),
            y_text=lambda y: units.byte_rate(y, lang),
            x_label=tr("working set", lang),
        ),
    )
    copies = [p for p in result.of("transfers", "transfer") if p.params.get("op") != "d2d"]
    yield _section(
        tr("Copies by size", lang),
        chart(
            _curves(copies, "op", "bytes", lambda p: p.bytes_per_s, lang),
            x_text=lambda x: units.size(x, lang),
            y_text=lambda y: units.byte_rate(y, lang),
            x_label=tr("size", lang),
        ),
    )


def _section(title: str, drawing: str) -> str:
    return f"<h2>{html.escape(title)}</h2>{drawing}" if drawing else ""


def _curves(
    points: Iterable[Point], name: str, axis: str, rate: Callable[[Point], float | None], lang: str
) -> list[Curve]:
    """One curve a value of `name`; of several points at one place the best."""
    found: dict[str, dict[float, float]] = {}
    for point in points:
        value = rate(point)
        if value is not None:
            curve = found.setdefault(word(point.params.get(name, ""), lang), {})
            x = float(point.params[axis])
            curve[x] = max(value, curve.get(x, 0.0))
    return [Curve(label, tuple(curve.items())) for label, curve in found.items()]


def _facts(result: BenchResult, lang: str) -> str:
    rows = "".join(
        f"<tr><td class=dim>{html.escape(name)}</td><td>{html.escape(text)}</td></tr>"
        for name, text in result.machine.items()
    )
    notes = "".join(
        f"<p>{html.escape(text)}</p>" for text in (render(text, lang) for text in result.warnings)
    )
    return f"<h2>{html.escape(tr('Machine', lang))}</h2>{notes}<table>{rows}</table>"
