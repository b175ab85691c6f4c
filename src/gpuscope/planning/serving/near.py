"""A serving choice's memory by holder, and what is one decision away from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpuscope.document.blocks import Cell, Column, Section, Table
from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text, verbatim
from gpuscope.errors import GpuscopeError
from gpuscope.planning.serving.search import feasible, scored
from gpuscope.planning.serving.space import deployed
from gpuscope.planning.serving.splits import SPLITS
from gpuscope.planning.serving.steady import SIMULATED_ERROR, Steady
from gpuscope.planning.serving.types import Offered, ServingChoice, ServingQuestion
from gpuscope.serving.memory import CONTEXT_BYTES, GRAPHS_BYTES
from gpuscope.serving.simulate import Deployment

__all__ = ["Away", "away_from", "held", "near_serving", "one_step", "what_holds"]


@dataclass(frozen=True, slots=True)
class Away:
    """One decision away from a choice.

    Attributes:
        change: the decision: "tp 1 → 2".
        offered: what it would be like; None where it cannot be.
        why: then the reason.
    """

    change: str
    offered: Offered | None
    why: str = ""


def one_step(
    question: ServingQuestion, choice: ServingChoice
) -> Iterator[tuple[str, ServingChoice]]:
    """Every choice that differs by one decision, with that: half or twice a degree or a setting of
    an iteration, a replica more or less for prompts alone, another dtype that may be taken, other
    devices that were asked for.

    What a choice has of replicas follows from its devices.
    """
    devices = choice.cluster.n_devices
    for change, shared in _shared(question, choice):
        filled = shared.filled()
        if filled is not None:
            yield change, filled
    for other in question.dtypes:
        if other != choice.dtype:
            yield f"dtype {choice.dtype} → {other}", replace(choice, dtype=other)
    for other in question.kv_dtypes:
        if other != choice.kv_dtype:
            yield f"kv {choice.kv_dtype} → {other}", replace(choice, kv_dtype=other)
    for name in ("max_tokens", "max_sequences"):
        mine = getattr(choice, name)
        for value in (mine // 2, 2 * mine):
            if value:
                yield f"{name.replace('_', '-')} {mine} → {value}", replace(choice, **{name: value})
    for cluster in question.clusters:
        ratio = cluster.n_devices / devices
        same = cluster.device.id == choice.cluster.device.id
        filled = replace(choice, cluster=cluster).filled()
        alike = (same and ratio in (0.5, 2.0)) or (not same and ratio == 1.0)
        if filled is not None and alike and choice.tp <= cluster.devices_per_node:
            yield f"{choice.cluster.name} → {cluster.name}", filled


def _shared(
    question: ServingQuestion, choice: ServingChoice
) -> Iterator[tuple[str, ServingChoice]]:
    """One decision away in how devices share the model, replicas as they were."""
    for tp in (choice.tp // 2, 2 * choice.tp):
        if 1 <= tp <= choice.cluster.devices_per_node:
            splits = [(n, v) for n, v in choice.splits if SPLITS.get(n).multiplies or tp % v == 0]
            yield f"tp {choice.tp} → {tp}", replace(choice, tp=tp, splits=tuple(splits))
    for split in SPLITS:
        mine = choice.value(split.name)
        offered = split.values(question.size, choice.tp, choice.cluster.n_devices)
        for value in sorted({1, *offered}):
            if value != mine and max(value, mine) <= 2 * min(value, mine):
                yield f"{split.name} {mine} → {value}", choice.split(split.name, value)
    for prefill in (choice.prefill - 1, choice.prefill + 1):
        if prefill >= 0:
            yield f"prefill {choice.prefill} → {prefill}", replace(choice, prefill=prefill)


def away_from(
    question: ServingQuestion, best: Offered, judged: tuple[Offered, ...]
) -> tuple[Away, ...]:
    """All that are one decision away: simulated where they were, else by the quick score, scaled by
    what that was off for the choice.

    Args:
        question: what is asked.
        best: the choice, simulated.
        judged: all that were simulated.
    """
    quick = scored(question, best.choice)
    slower, later = best.tpot_s / quick.tpot_s, best.ttft_s / quick.ttft_s
    exact = {each.choice: each for each in judged}
    found: list[Away] = []
    for change, choice in one_step(question, best.choice):
        if choice in exact:
            found.append(Away(change, exact[choice]))
            continue
        try:
            each = scored(question, choice)
        except GpuscopeError as error:
            found.append(Away(change, None, error.what))
            continue
        tpot_s, ttft_s = each.tpot_s * slower, each.ttft_s * later
        sure = feasible(
            question, Steady(0.0, tpot_s, ttft_s, 0.0), each.headroom, SIMULATED_ERROR,
            choice.cluster.device,
        )  # fmt: skip
        found.append(Away(change, replace(each, tpot_s=tpot_s, ttft_s=ttft_s, feasible=sure)))
    return tuple(found)


def held(found: Deployment) -> tuple[tuple[Text, float], ...]:
    """Bytes of each device by what holds them, the largest first; together its usable memory."""
    memory, device = found.memory, found.cluster.device
    graphs = GRAPHS_BYTES if found.engine.counts_graphs else 0.0
    rows = [
        (Text("weights"), memory.weights_bytes),
        (Text("keys and values"), memory.tokens * memory.token_bytes),
        (Text("activations"), memory.activations_bytes),
        (Text("captured graphs"), graphs),
        (Text("the driver's context"), CONTEXT_BYTES),
    ]
    left = device.memory_usable_bytes - sum(count for _, count in rows)
    rows.append((Text("left"), max(0.0, left)))
    return tuple(sorted(rows, key=lambda row: -row[1]))


def what_holds(question: ServingQuestion, choice: ServingChoice) -> Section:
    """The memory of each device by holder."""
    found = deployed(question, choice)
    columns = (Column(Text("holder")), Column(Text("on each device"), "bytes"))
    note = Text(
        "Of {total} usable; keys and values have room for {tokens} tokens.",
        total=Bytes(choice.cluster.device.memory_usable_bytes),
        tokens=found.memory.tokens,
    )
    table = Table(verbatim(choice.words), columns, held(found), note=note)
    return Section(Text("What holds the memory"), (table,))


def near_serving(question: ServingQuestion, best: Offered, judged: tuple[Offered, ...]) -> Section:
    """What is one decision away, as a table."""
    columns = (
        Column(Text("one step away")),
        Column(Text("TTFT"), "s"),
        Column(Text("TPOT"), "s"),
        Column(Text("can serve"), "percent"),
        Column(Text("likely to do"), "percent"),
        Column(Text("a million tokens"), "USD"),
        Column(Text("figure")),
    )
    rows = tuple(_row(each) for each in away_from(question, best, judged))
    title = Text("One decision from: {plan}", plan=best.choice.words)
    note = Text("A quick score is scaled by what it was off for the choice.")
    return Section(Text("One decision away"), (Table(title, columns, rows, note=note),))


def _row(away: Away) -> tuple[Cell, ...]:
    each = away.offered
    if each is None:
        return (away.change, None, None, None, None, None, away.why)
    figure = Text("simulated") if each.simulated else Text("quick score")
    return (
        away.change, each.ttft_s, each.tpot_s, each.headroom, each.feasible, each.usd_per_million,
        figure,
    )  # fmt: skip
