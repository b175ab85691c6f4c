"""One figure of each sort, with what is awkward in each: Chinese, `$`, gaps, steps, empty cells."""

from __future__ import annotations

from both import both as two_languages

from gpuscope.document.blocks import (
    Axis,
    Bar,
    Bars,
    Diagram,
    Explanation,
    Explorer,
    HeatMap,
    Lines,
    Link,
    Mark,
    Node,
    Output,
    Paragraph,
    Part,
    Section,
    Series,
    Slider,
)
from gpuscope.document.text import Text


def both(text: str) -> Text:
    return two_languages(text, f"中文：{text}")


BARS = Bars(
    both("Where 12 ms go, at $0.10 and $0.20"),
    "s",
    (
        Bar(
            both("forward"),
            (Part(both("matrix"), 3e-3, "tensor"), Part(both("copies"), 1e-3, "copy")),
        ),
        Bar(
            "aten::_scaled_dot_product_flash_attention_for_cpu_and_more_letters",
            (Part(both("matrix"), 5e-3, "tensor"), Part(both("vector"), 1e-3, "tensor")),
            note=both("twice the forward pass"),
        ),
        Bar(7, (Part(both("idle"), 0.0, "idle"),)),
    ),
    limit=4.5e-3,
    limit_label=both("at best"),
    note=both("A remark below."),
)

LINES = Lines(
    both("Reach by size"),
    Axis(both("size"), "bytes", log=True),
    Axis(both("bandwidth"), "bytes/s"),
    (
        Series(
            both("model"),
            tuple(float(2**n) for n in range(10, 31, 4)),
            (1e9, 1e10, 1e11, None, 3e12, 3.5e12),
            role="memory",
            low=(8e8, 8e9, 8e10, 1e12, 2.5e12, 3e12),
            high=(2e9, 2e10, 2e11, 3e12, 4e12, 4.2e12),
        ),
        Series(both("measured"), (2.0**12, 2.0**20), (2e9, 2e12), "points", "good"),
        Series(both("stairs"), (2.0**10, 2.0**20, 2.0**30), (1e12, 2e12, 3e12), "steps", "memory"),
    ),
    (Mark(both("L2"), x=2.0**25), Mark(both("peak"), y=4.8e12), Mark(both("here"), 2.0**20, 2e12)),
)

SORTS = HeatMap(
    both("Waves on the SMs"),
    Axis(both("SM")),
    Axis(both("wave")),
    tuple(
        tuple(0.0 if w < 3 or s < 40 else (1.0 if s < 80 else None) for s in range(132))
        for w in range(4)
    ),
    classes=(both("full"), both("tail")),
    roles=("compute", "tail"),
)

AMOUNTS = HeatMap(
    both("Bytes between ranks"),
    Axis(both("to")),
    Axis(both("from")),
    ((0.0, 1e6, 2e6), (1e6, None, 4e6), (5e5, 1e6, 0.0)),
    "bytes",
    x_labels=("0", "1", "2"),
    y_labels=("0", "1", "2"),
)

DIAGRAM = Diagram(
    both("One device"),
    (
        Node("sm", both("132 SMs"), "compute", 0.3, 0.35, 0.4, 0.5, both("1.98 GHz"), cells=132),
        Node("l2", both("L2"), "cache", 0.68, 0.35, 0.14, 0.3, both("50 MiB")),
        Node("hbm", both("HBM3e"), "memory", 0.92, 0.35, 0.14, 0.5),
        Node("host", both("host"), "host", 0.3, 0.88, 0.3, 0.16),
    ),
    (
        Link("l2", "sm", both("reads"), 5e12, 7e12),
        Link("hbm", "l2", both("reads"), 4.1e12, 4.8e12, narrowest=True),
        Link("host", "sm", None, None, 6.4e10),
        Link("sm", "host", None, 1e9, 6.4e10),
    ),
)

RING = Diagram(
    both("A ring"),
    tuple(
        Node(f"r{i}", both(f"rank {i}"), "rank", 0.2 + 0.6 * (i % 2), 0.2 + 0.6 * (i // 2))
        for i in range(4)
    ),
    tuple(
        Link(f"r{i}", f"r{(i + 1) % 4}", both(f"part {i}"), 4e11, step=s)
        for s in range(10)
        for i in range(4)
    ),
    tuple(both(f"pass part {s}") for s in range(10)),
)

EXPLORER = Explorer(
    both("Time against size"),
    (
        Slider("n", both("size"), (1024.0, 2048.0, 4096.0), start=1),
        Slider("dtype", both("dtype"), ("fp32", "bf16"), start=1),
    ),
    (
        Output(
            "t",
            both("time"),
            "s",
            (1e-3, 5e-4, 4e-3, 2e-3, 1.6e-2, 8e-3),
            (None, 4e-4, None, 1e-3, None, 6e-3),
            (None, 6e-4, None, 3e-3, None, 9e-3),
            role="tensor",
        ),
        Output("r", both("rate"), "flop/s", (2e12, 4e12, 4e12, 8e12, 8e12, 1.6e13), role="compute"),
        Output("why", both("limit"), "", ("a", "b", "c", "d", "e", None), plotted=False),
    ),
    x="n",
)

FIGURE_BLOCKS = (BARS, LINES, SORTS, AMOUNTS, DIAGRAM, RING, EXPLORER)

EXPLAINED = Explanation(
    "sample",
    both("Every figure"),
    (both("One of each."),),
    (Section(both("Figures"), (Paragraph(both("Words are no figure.")), *FIGURE_BLOCKS)),),
)
