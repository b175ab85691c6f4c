"""Stable words of the data ("tensor_core", "idle", "measured") as people read them.

Logic and documents hold such words as they are; a view says them through `word`. What is not
listed (an operator's name, a word of a newer document) is shown as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuscope.document.text import Text, joined, render, verbatim

if TYPE_CHECKING:
    from gpuscope.run import Run

_TEXTS = (
    # Time classes, and causes of idle time.
    Text("compute-bound"),
    Text("bandwidth-bound"),
    Text("instruction-bound"),
    Text("launch-bound"),
    Text("transfers"),
    Text("communication"),
    Text("not classified"),
    Text("transfer"),
    Text("idle"),
    Text("host dispatching"),
    Text("host synchronising"),
    Text("launch gap"),
    Text("waiting for data"),
    Text("waiting for another stream"),
    Text("waiting for another rank"),
    Text("waiting by chance"),
    Text("unknown"),
    # Families of kernels.
    Text("matmul"),
    Text("attention"),
    Text("convolution"),
    Text("normalization"),
    Text("reduction"),
    Text("pointwise"),
    Text("gather"),
    Text("sort"),
    Text("copy"),
    Text("optimizer"),
    Text("recurrent"),
    Text("collective"),
    Text("memset"),
    Text("random"),
    Text("fused"),
    Text("other"),
    # What limits a kernel.
    Text("compute"),
    Text("tensor core"),
    Text("memory"),
    Text("l2"),
    Text("issue"),
    Text("latency"),
    Text("launch"),
    Text("link"),
    Text("host"),
    # Origins of figures.
    Text("measured"),
    Text("predicted"),
    Text("calibrated"),
    Text("datasheet"),
    Text("secondary source"),
    Text("estimated"),
    Text("computed"),
    Text("what-if"),
    # What memory holds.
    Text("parameter"),
    Text("gradient"),
    Text("optimizer state"),
    Text("activation"),
    Text("temporary"),
    Text("input"),
    Text("buffer"),
    Text("cache"),
    Text("workspace"),
    # Phases.
    Text("forward"),
    Text("backward"),
    # Copies.
    Text("host to device"),
    Text("device to host"),
    Text("within the device"),
    Text("between devices"),
    Text("within the host"),
    Text("unknown direction"),
    Text("pageable"),
    Text("pinned"),
    # The critical path.
    Text("kernel"),
    Text("host operator"),
    Text("host call"),
    Text("python"),
    Text("loading input"),
    Text("launch latency"),
    Text("synchronising"),
    Text("handing over"),
    Text("unexplained"),
    Text("graph launch"),
    Text("other places"),
    # Why a rank comes late; what a recording can answer.
    Text("began late"),
    Text("more work"),
    Text("slower kernels"),
    Text("other communication"),
    Text("time"),
    Text("ranks"),
    Text("steps"),
    # Why a clock is held down.
    Text("application clocks"),
    Text("display clocks"),
    Text("hardware power brake"),
    Text("hardware slowdown"),
    Text("hardware thermal slowdown"),
    Text("software power cap"),
    Text("software thermal slowdown"),
    Text("sync boost"),
    Text("power"),
    Text("thermal"),
    # How sure the catalogue is, and how bad what a check found.
    Text("solid"),
    Text("shaky"),
    Text("error"),
    Text("warning"),
    Text("note"),
    Text("ok"),
    # Verdicts on claims, and how they were found.
    Text("wrong"),
    Text("imprecise"),
    Text("depends"),
    Text("right"),
    Text("cannot say"),
    Text("catalogue"),
    Text("formula"),
    Text("recorded measurement"),
)

WORDS: Mapping[str, Text] = {str(text): text for text in _TEXTS}
"""Every word of a run's data, by its English."""


def word(name: str, lang: str) -> str:
    """Return a stable word of the data in a language; its underscores are spaces."""
    return render(word_text(name), lang)


def word_text(name: str) -> Text:
    """Return a stable word of the data as a text."""
    plain = name.replace("_", " ")
    return WORDS.get(plain) or verbatim(plain)


def class_label(label: str, lang: str) -> str:
    """Return a time class in words; "idle: " and its cause are two texts."""
    return render(class_text(label), lang)


def class_text(label: str) -> Text:
    """Return a time class as a text."""
    return joined((word_text(part) for part in label.split(": ")), ": ")


def printed_words(device: str) -> tuple[Text, Text]:
    """Title of what a whole script printed, and what to know of it."""
    return Text("What the script printed"), Text(
        "Times and memory in it are predicted for {device}. Numbers that kernels compute are "
        "not known: 1, 0 or zeros stand for them.",
        device=device,
    )


def whose(run: Run) -> Text | None:
    """Say which rank's figures a report's tables hold; None where there is one rank only."""
    times, job = run.analysis.time, run.analysis.job
    rank = next(iter(times), 0)
    if job is None:
        if len(times) < 2:
            return None
        return Text(
            "Where nothing else is said, the figures below are those of rank {rank}, one of "
            "{count} recorded ranks.",
            rank=rank,
            count=len(times),
        )
    if len(job.ranks) == 1:
        return Text(
            "All {count} ranks do the same work: where nothing else is said, the figures below are "
            "those of one of them, rank {rank}.",
            count=job.world_size,
            rank=rank,
        )
    return Text(
        "Where nothing else is said, the figures below are those of rank {rank}, one of {count}; "
        "what all of them do stands under “The job”.",
        rank=rank,
        count=job.world_size,
    )
