"""Buckets for lengths that vary, for a reader."""

from __future__ import annotations

from gpuscope.advice.forecast.buckets import FLAT, BucketAdvice
from gpuscope.document.blocks import Axis, Block, Column, Lines, Paragraph, Section, Series, Table
from gpuscope.document.quantities import Percent, Ratio
from gpuscope.document.text import Text, plural

__all__ = ["bucket_section"]

_MOST_SHOWN = 6


def bucket_section(found: BucketAdvice) -> Section:
    """The choices as a table, and the steps that they were made from as a curve."""
    longest = found.choices[0].mean_step_s
    shown = found.choices[: max(_MOST_SHOWN, len(found.best.sizes))]
    rows = tuple(
        (
            len(each.sizes),
            ", ".join(map(str, each.sizes)),
            each.mean_step_s,
            longest / each.mean_step_s,
            100 * each.padding,
        )
        for each in shown
    )
    table = Table(
        Text("The best sizes for so many buckets, predicted"),
        (
            Column(Text("buckets"), "count"),
            Column(Text("pad to")),
            Column(Text("mean step"), "s"),
            Column(Text("speed-up"), "ratio"),
            Column(Text("padding"), "%"),
        ),
        rows,
        marked=tuple(at for at, each in enumerate(shown) if each is found.best),
    )
    blocks: list[Block] = [Paragraph(_verdict(found), "key"), table]
    if len(found.steps) > 2:
        blocks.append(_curve(found))
    blocks.append(Paragraph(_price(found), "warning"))
    return Section(Text("Buckets for sequences of different lengths"), tuple(blocks))


def _verdict(found: BucketAdvice) -> Text:
    if len(found.best.sizes) == 1:
        return Text(
            "Pad all to {size}: more buckets gain less than {flat}.",
            size=found.best.sizes[0],
            flat=Percent(FLAT),
        )
    return Text(
        "Pad to {sizes}: {gain} as fast as padding all to {longest}; {padding} of the tokens are "
        "padding instead of {was}. More buckets gain less than {flat}.",
        sizes=", ".join(map(str, found.best.sizes)),
        gain=Ratio(found.gain),
        longest=found.choices[0].sizes[0],
        padding=Percent(found.best.padding),
        was=Percent(found.choices[0].padding),
        flat=Percent(FLAT),
    )


def _price(found: BucketAdvice) -> Text:
    if found.compiles:
        return plural(
            "jax.jit compiles once for each size: {buckets} instead of {count} for this one "
            "length. Sequences of a step are taken to be in one bucket.",
            "jax.jit compiles once for each size: {buckets} instead of {count} for these lengths. "
            "Sequences of a step are taken to be in one bucket.",
            found.different,
            buckets=len(found.best.sizes),
        )
    return Text(
        "One recorded graph, or one engine's range of shapes, for each size. Sequences of a step "
        "are taken to be in one bucket; padding needs a mask."
    )


def _curve(found: BucketAdvice) -> Lines:
    return Lines(
        Text("Step over length"),
        Axis(Text("tokens"), "count"),
        Axis(Text("step"), "s"),
        (
            Series(
                Text("predicted"),
                tuple(float(size) for size, _ in found.steps),
                tuple(step_s for _, step_s in found.steps),
                role="compute",
            ),
        ),
    )
