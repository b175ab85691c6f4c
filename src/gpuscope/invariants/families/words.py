"""What a sentence says of a figure holds for it: "limited by", "most"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuscope.cost.types import Kernel
from gpuscope.document.quantities import Percent, Share
from gpuscope.document.text import Text
from gpuscope.invariants.book import Book
from gpuscope.invariants.output import Output
from gpuscope.invariants.registry import invariant

_MOST = re.compile(r"\b(most(?! (?:bytes|time|calls|of (?:all|them))\b)|mostly)\b", re.IGNORECASE)


@invariant("words")
def words(output: Output, book: Book) -> None:
    """Limiters are the largest term beside them, and "most" is more than half."""
    _limiter(output, book)
    _kernels(output, book)
    _most(output, book)


def _limiter(output: Output, book: Book) -> None:
    classes, job = output.run.analysis.classes, output.run.analysis.job
    if classes:
        largest = max(classes, key=lambda share: share.time_s)
        shown = output.document["figures"]["limiter"]
        what = Text("{row} is the largest term", row="figures.limiter")
        book.holds(what, shown == largest.label, shown, largest.label)
    losses = [part for part in job.parts if part.kind != "compute"] if job is not None else []
    if losses:
        worst = max(losses, key=lambda part: part.time_s)
        what = Text("{row} is the largest term", row="analysis.job.parts")
        book.holds(what, losses[0].time_s >= worst.time_s, losses[0].kind, worst.kind)


def _kernels(output: Output, book: Book) -> None:
    """A kernel that is limited by arithmetic or by memory takes most of its time for it."""
    for kernel in output.run.timeline.kernels:
        if not isinstance(kernel, Kernel) or not (kernel.compute_s and kernel.memory_s):
            continue
        arithmetic = kernel.limiter in ("compute", "tensor_core")
        if arithmetic or kernel.limiter == "memory":
            own, other = kernel.compute_s, kernel.memory_s
            own, other = (own, other) if arithmetic else (other, own)
            what = Text("the limiter {limiter} of {row}", limiter=kernel.limiter, row=kernel.name)
            book.at_most(what, other, own, within=1e-6)


def _most(output: Output, book: Book) -> None:
    for finding in output.run.analysis.findings:
        for sentence in (finding.title, finding.evidence):
            for template, share in _claims(sentence):
                what = Text('"most" in {row}', row=f"analysis.findings: {finding.kind}")
                book.holds(what, share > 0.5, template, Text("more than half"))


def _claims(sentence: str) -> Iterator[tuple[str, float]]:
    """A sentence that says "most" with the share that it gives for it, the first in it."""
    if not isinstance(sentence, Text) or not _MOST.search(sentence.template):
        return
    shares = [v.value for v in sentence.values.values() if isinstance(v, Percent | Share)]
    if shares and shares[0] is not None:
        yield str(sentence), shares[0]
