"""A bench's result as one JSON document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gpuscope import __version__
from gpuscope.document.language import LANGUAGES
from gpuscope.measurement.bench.figures import figures
from gpuscope.measurement.bench.store import (
    SCHEMA,
    VERSION,
    failure_document,
    head_document,
    point_document,
)
from gpuscope.measurement.bench.types import BenchResult
from gpuscope.views.bench_text import headline


def bench_document(result: BenchResult) -> dict[str, Any]:
    """Return the document: facts, figures with their sentences, points, failures."""
    found = figures(result)
    device = result.machine.get("device", "")
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "gpuscope_version": __version__,
        **head_document(result),
        "headline": headline(found, device, "en"),
        **{f"headline_{lang}": headline(found, device, lang) for lang in LANGUAGES[1:]},
        "figures": [asdict(figure) for figure in found],
        "points": [point_document(point) for point in result.points],
        "failures": [failure_document(failure) for failure in result.failures],
    }
