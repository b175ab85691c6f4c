"""What each change of a deployment gains: the same load served again, one setting changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuscope.api import resolve_target
from gpuscope.document.blocks import Column, Section, Table
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text, verbatim
from gpuscope.errors import GpuscopeError
from gpuscope.serving.engine import engine
from gpuscope.serving.metrics import Metrics, metrics
from gpuscope.serving.result import Serving
from gpuscope.serving.slo import Limit


@dataclass(frozen=True, slots=True)
class Gain:
    """A run with one setting changed.

    Attributes:
        what: the change.
        run: of the same requests.
    """

    what: Text
    run: Serving


def gains(model: str, on: Any, asked: Mapping[str, Any]) -> tuple[Gain, ...]:
    """Serve a load with each change; what cannot be (a dtype that a device lacks) is left out.

    Args:
        model, on: as `gs.serve` takes them.
        asked: its other arguments, of one load.
    """
    from gpuscope.serving.verb import serve

    found = []
    for what, change in (*_changes(asked), *_splits(model, on, asked)):
        try:
            found.append(Gain(what, serve(model, on, **{**asked, **change})[0]))
        except GpuscopeError:
            continue
    return tuple(found)


def _changes(asked: Mapping[str, Any]) -> list[tuple[Text, dict[str, Any]]]:
    made: list[tuple[Text, dict[str, Any]]] = []
    name = str(asked.get("engine", "vllm"))
    if not name.endswith(".pbtxt"):
        profile = engine(name)
        for field, label in (
            ("max_tokens", Text("tokens of an iteration")),
            ("max_sequences", Text("sequences at work")),
        ):
            now = asked.get(field) or getattr(profile, field)
            for value in (now // 2, now * 2):
                what = Text("{label}: {value}", label=label, value=Number(value, ","))
                made.append((what, {field: value}))
        if profile.graph_sizes:
            on = asked.get("graphs", True)
            told = Text("without CUDA graphs") if on else Text("with CUDA graphs")
            made.append((told, {"graphs": not on}))
    if asked.get("dtype", "bfloat16") in ("bfloat16", "bf16"):
        made.append((Text("weights in fp8"), {"dtype": "fp8"}))
    if asked.get("kv_dtype", "bfloat16") in ("bfloat16", "bf16"):
        made.append((Text("keys and values in fp8"), {"kv_dtype": "fp8"}))
    if asked.get("speculate") is None:
        made.append((Text("three tokens drafted, 0.7 accepted"), {"speculate": "k=3,accept=0.7"}))
    return made


def _splits(model: str, on: Any, asked: Mapping[str, Any]) -> list[tuple[Text, dict[str, Any]]]:
    """Other ways to use the same devices; a model without experts refuses the last one."""
    if asked.get("prefill") is not None:
        return []
    count = resolve_target(on).n_devices
    if (pp := asked.get("pp", 1)) > 1:
        tp = asked.get("tp") or max(1, count // ((asked.get("replicas") or 1) * pp))
        return [(Text("no stages, {tp} devices", tp=tp * pp), {"pp": 1, "tp": tp * pp})]
    copies = asked.get("replicas") or max(1, count // (asked.get("tp") or count))
    tp = asked.get("tp") or max(1, count // copies)
    made = [
        (Text("{copies} x {tp} devices", copies=count // n, tp=n),
         {"tp": n, "replicas": count // n, "attention_dp": 1, "ep": 1})
        for n in (tp // 2, tp * 2)
        if n and n <= count
    ]  # fmt: skip
    if tp > 1:
        told = Text("two stages of {tp} devices", tp=tp // 2)
        made.append((told, {"pp": 2, "tp": tp // 2, "attention_dp": 1, "ep": 1}))
        other = 1 if asked.get("attention_dp", 1) > 1 else tp
        made.append((Text("attention in data parallel: {groups}", groups=other),
                     {"attention_dp": other, "ep": tp}))  # fmt: skip
    return made


def gains_section(base: Serving, found: Sequence[Gain], limits: Sequence[Limit]) -> Section:
    """The changes beside the run as it is."""
    rows = [(Text("as it is"), base), *((each.what, each.run) for each in found)]
    columns = (
        Column(Text("change")),
        Column(verbatim("TTFT P50"), "s"),
        Column(verbatim("TPOT P50"), "s"),
        Column(verbatim("E2E P90"), "s"),
        Column(Text("capacity, requests/s")),
        Column(Text("within limits"), "share"),
    )
    cells = tuple((what, *_figures(run, metrics(run, limits))) for what, run in rows)
    return Section(
        Text("What a change gains"),
        (
            Table(
                Text("The same load, one setting changed"),
                columns,
                cells,
                note=Text("A lower number of bits may cost accuracy, which is not predicted."),
            ),
        ),
    )


def _figures(run: Serving, found: Metrics) -> tuple[float | None, ...]:
    ttft, tpot, e2e = found.ttft.p50_s, found.tpot.p50_s, found.e2e.p90_s
    if run.saturated:  # such means say nothing
        ttft = tpot = e2e = None
    return ttft, tpot, e2e, run.capacity_per_s, found.kept_share
