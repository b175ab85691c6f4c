"""Ways to serve that no candidate is, simulated on the choice's devices: "kv=fp8", "tp=3",
"disaggregated"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError
from gpuscope.planning.serving.search import scored, simulated
from gpuscope.planning.serving.splits import SPLITS
from gpuscope.planning.serving.types import Offered, ServingChoice, ServingPlan
from gpuscope.planning.why import Speech

__all__ = ["SPEECH", "outcome", "untried_serving"]

SPEECH = Speech(
    f"tp, {', '.join(SPLITS.names())}, replicas, prefill, DTYPE, kv, max-tokens, max-sequences",
    "--why tp=2",
    {
        "tp": "1",
        **dict.fromkeys(SPLITS.names(), "1"),
        "replicas": "1",
        "prefill": "0",
        "kv": "bfloat16",
    },
    {"dtype": ()},
    {"kv-dtype": "kv", "kv_dtype": "kv"},
    numbers=("tp", *SPLITS.names(), "replicas", "max-tokens", "max-sequences"),
)

_COUNTS = {"tp": "tp", "replicas": "replicas", "prefill": "prefill", "max-tokens": "max_tokens",
           "max-sequences": "max_sequences"}  # fmt: skip


def outcome(each: Offered) -> Text:
    """What a simulation said."""
    return Text(
        "Simulated: TPOT {tpot}, TTFT {ttft}, {feasible} likely to do.",
        tpot=Seconds(each.tpot_s),
        ttft=Seconds(each.ttft_s),
        feasible=Percent(each.feasible),
    )


def untried_serving(plan: ServingPlan, parts: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The choice, or the nearest, with these in place of its own, simulated.

    Args:
        plan: the answer.
        parts: values by name; a lone word is a dtype of the weights, or "disaggregated".
    """
    shown = plan.best or plan.nearest
    if shown is None:
        return ()
    choice, counts = shown.choice, dict[str, Any]()
    for name, value in parts.items():
        counted = name in (*_COUNTS, *SPLITS.names())
        if counted and not (value.isdecimal() and int(value) > 0):
            return ()
        if name in _COUNTS:
            counts[_COUNTS[name]] = int(value)
        elif counted:
            choice = choice.split(name, int(value))
        elif name == "kv":
            choice = replace(choice, kv_dtype=value)
        elif (name, value) == ("", "disaggregated"):
            choice = replace(choice, prefill=_half(choice))
        elif name in ("", "dtype"):
            choice = replace(choice, dtype=value)
        else:
            return ()
    choice = replace(choice, **counts)
    if choice.value("pp") > 1 and "tp" not in parts:
        choice = replace(choice, tp=max(1, choice.tp // choice.value("pp")))
    if "replicas" not in parts:
        choice = choice.filled() or replace(choice, replicas=1)
    words, count = f"{choice.cluster.name}: {choice.words}", choice.cluster.n_devices
    if choice.needed > count:
        told = Text("{needed} devices are more than {count}.", needed=choice.needed, count=count)
        return ((words, told),)
    try:
        told = outcome(simulated(plan.question, scored(plan.question, choice)))
    except GpuscopeError as error:
        return ((words, error.what),)
    return ((words, Text("No candidate was like this. {outcome}", outcome=told)),)


def _half(choice: ServingChoice) -> int:
    """Replicas for prompts, where as many make answers; at least one."""
    return max(1, choice.cluster.n_devices // choice.of_a_replica // 2)
