"""Bandwidth of device memory and of the link to the host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from gpuscope.doctor import expected as models
from gpuscope.doctor.deep import (
    Answer,
    against,
    ask,
    failures,
    judge,
    slow_finding,
    span,
    with_share,
)
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.quantities import Percent, Rate
from gpuscope.document.text import Text, joined, plural

NAME = "deep_copies"
TIMEOUT_S = 150.0
INSIDE_SPREAD, HOST_SPREAD = 0.06, 0.3
"""By which healthy devices differ: memory hardly at all; the link to the host by the processor
whose memory the process happened to get."""

WAYS = {"h2d_pinned": "h2d", "d2h_pinned": "d2h"}
_WAY_WORDS = {"h2d_pinned": Text("copies from the host"), "d2h_pinned": Text("copies to the host")}


@check(NAME, "deep", Text("Bandwidth of device memory and of copies to and from the host"))
def deep_copies(machine: Machine) -> Iterable[Finding]:
    """Judge the copies of every device."""
    answer, found = ask(machine, NAME, "deep_copies", TIMEOUT_S)
    yield from found
    if answer is None:
        return
    yield from failures(answer)
    bad: set[int] = set()
    for finding in (*_inside(answer), *_host(answer)):
        if finding.severity == "warning" and finding.device is not None:
            bad.add(finding.device)
        yield finding
    yield from _narrow_link(answer)
    yield from _right(answer, bad)


def _rates(answer: Answer, kind: str) -> dict[int, float]:
    return {
        int(row["index"]): float(row[kind]["bytes_per_s"]) for row in answer.devices if kind in row
    }


def _inside_expected(answer: Answer) -> dict[int, models.Expected | None]:
    found: dict[int, models.Expected | None] = {}
    for row in answer.devices:
        device = answer.catalogued(row)
        if device is not None and "inside" in row:
            found[int(row["index"])] = models.copy_inside(device, int(row["inside"]["bytes"]))
    return found


def _inside(answer: Answer) -> Iterator[Finding]:
    rates = _rates(answer, "inside")
    what = Text("copies within device memory")
    outliers = models.slow_ones(rates, INSIDE_SPREAD)
    for slow in judge(what, "B/s", rates, _inside_expected(answer), outliers):
        yield slow_finding(
            answer,
            [slow],
            Text("Most operators of a network are as slow as the memory."),
            Text(
                "Look at the memory clock, ECC errors and remapped rows, and at other programs on "
                "the device."
            ),
            (f"nvidia-smi -q -i {slow.index} -d CLOCK,ECC,ROW_REMAPPER,UTILIZATION",),
            {"inside_bytes_per_s": slow.rate},
        )


def _host_expected(answer: Answer, kind: str) -> dict[int, models.Expected | None]:
    found: dict[int, models.Expected | None] = {}
    for row in answer.devices:
        device = answer.catalogued(row)
        if device is None or kind not in row:
            continue
        found[int(row["index"])] = models.host_copy(
            device,
            WAYS[kind],
            int(row[kind]["bytes"]),
            row.get("pcie_generation"),
            row.get("pcie_width"),
        )
    return found


def _host(answer: Answer) -> Iterator[Finding]:
    for kind, what in _WAY_WORDS.items():
        rates = _rates(answer, kind)
        outliers = models.slow_ones(rates, HOST_SPREAD)
        for slow in judge(what, "B/s", rates, _host_expected(answer, kind), outliers):
            yield slow_finding(
                answer,
                [slow],
                Text("Data loading, offloading and checkpoints wait for this link."),
                Text(
                    "See the check of the PCIe link; run the process on the processor that the "
                    "device is attached to; on bare metal, boot with iommu=pt."
                ),
                (
                    "gpuscope doctor --only topology",
                    "nvidia-smi topo -m",
                    "numactl --cpunodebind=N --membind=N python ...",
                ),
                {f"{kind}_bytes_per_s": slow.rate},
            )


def _narrow_link(answer: Answer) -> Iterator[Finding]:
    """Under load the link runs slower than the device could: the board's choice, or a bad seat."""
    for row in answer.devices:
        device = answer.catalogued(row)
        generation, width = row.get("pcie_generation"), row.get("pcie_width")
        if device is None or device.host_link is None:
            continue
        share = models.link_share(device, generation, width)
        if share > 0.95:
            continue
        index = int(row["index"])
        yield Finding(
            NAME,
            "note",
            Text(
                "The link of device {index} carries {share} of what the device could",
                index=index,
                share=Percent(share),
            ),
            Text(
                "Under load: PCIe {generation} x{width}; the device has {host_link}.",
                generation=generation,
                width=width,
                host_link=device.host_link.name,
            ),
            Text("Copies to and from the host are as much slower."),
            Text("If board and slot could do more: reseat the card, check riser and firmware."),
            (f"nvidia-smi -q -i {index} -d PCIE",),
            answer.known_by,
            index,
            {"pcie_generation": generation, "pcie_width": width},
        )


def _right(answer: Answer, bad: set[int]) -> Iterator[Finding]:
    good = [row for row in answer.devices if int(row["index"]) not in bad and "inside" in row]
    if not good:
        return
    indexes = {int(row["index"]) for row in good}
    parts, judged = [], False
    values: dict[str, float | int | str | bool | None] = {}
    kinds: Mapping[str, tuple[Text, Callable[[], Mapping[int, models.Expected | None]]]] = {
        "inside": (Text("memory"), lambda: _inside_expected(answer)),
        "h2d_pinned": (Text("from the host"), lambda: _host_expected(answer, "h2d_pinned")),
        "d2h_pinned": (Text("to the host"), lambda: _host_expected(answer, "d2h_pinned")),
        "both_pinned": (Text("both ways at once, each"), dict),
    }
    for kind, (what, should) in kinds.items():
        rates = {i: r for i, r in _rates(answer, kind).items() if i in indexes}
        if not rates:
            continue
        values[f"{kind}_bytes_per_s"] = min(rates.values())
        given, shared = with_share(span(rates.values(), "B/s"), rates, should())
        judged = judged or shared
        parts.append(Text("{what} {rates}", what=what, rates=given))
    together = [float(r["together_bytes_per_s"]) for r in good if "together_bytes_per_s" in r]
    if together:
        values["together_bytes_per_s"] = sum(together)
        rate = Rate(sum(together), "B/s")
        parts.append(Text("from the host to all at once {rate}", rate=rate))
    yield Finding(
        NAME,
        "ok",
        plural(
            "Memory and host link of {count} device run as they should",
            "Memory and host link of {count} devices run as they should",
            len(good),
        )
        if judged
        else plural(
            "Memory and host link of {count} device: measured",
            "Memory and host link of {count} devices: measured",
            len(good),
        ),
        Text("{parts}{end}", parts=joined(parts), end=against(judged)),
        known_by=answer.known_by,
        values=values,
    )
