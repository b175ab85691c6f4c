"""Ways to serve that no candidate is, simulated on the choice's devices: "kv=fp8", "tp=3",
"disaggregated"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError, InvalidValueError
from gpuscope.hardware.cluster import build_cluster
from gpuscope.planning.serving.search import deployed, scored, simulated
from gpuscope.planning.serving.types import Offered, ServingChoice, ServingPlan
from gpuscope.planning.why import Speech
from gpuscope.serving.simulate import Deployment, apart

__all__ = ["SPEECH", "outcome", "untried_serving"]

SPEECH = Speech(
    "tp, replicas, DTYPE, kv, max-tokens, max-sequences; disaggregated, ep, dp, pp",
    "--why tp=2",
    {"tp": "1", "replicas": "1", "kv": "bfloat16"},
    {"dtype": ()},
    {"kv-dtype": "kv", "kv_dtype": "kv"},
)

_COUNTS = {"tp": "tp", "replicas": "replicas", "max-tokens": "max_tokens",
           "max-sequences": "max_sequences"}  # fmt: skip
_DEPLOYED = ("ep", "dp", "pp")
"""What `gpuscope.serving` can deploy and no candidate has."""


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
    mine, changes, more, halved = shown.choice, dict[str, Any](), dict[str, int](), False
    for name, value in parts.items():
        if name in (*_COUNTS, *_DEPLOYED) and not (value.isdecimal() and int(value) > 0):
            return ()
        if name in _COUNTS:
            changes[_COUNTS[name]] = int(value)
        elif name in _DEPLOYED:
            more[name] = int(value)
        elif name == "kv":
            changes["kv_dtype"] = value
        elif (name, value) == ("", "disaggregated"):
            halved = True
        elif name in ("", "dtype"):
            changes["dtype"] = value
        else:
            return ()
    stages = more.get("pp", 1)
    if stages > 1 and "tp" not in changes:
        changes["tp"] = max(1, mine.tp // stages)
    if "tp" in changes and "replicas" not in changes:
        changes["replicas"] = max(1, mine.cluster.n_devices // (changes["tp"] * stages))
    choice = replace(mine, **changes)
    words = ", ".join((choice.words, *(f"{n} {v}" for n, v in more.items())))
    words = f"{mine.cluster.name}: {words}" + (", disaggregated" if halved else "")
    needed = choice.tp * choice.replicas * stages
    if needed > mine.cluster.n_devices:
        told = Text("{needed} devices are more than {count}.", needed=needed,
                    count=mine.cluster.n_devices)  # fmt: skip
        return ((words, told),)
    try:
        found = _halves(plan, choice) if halved else deployed(plan.question, choice, **more)
        each = scored(plan.question, choice, found if stages > 1 else None)
        told = outcome(simulated(plan.question, each, found))
    except GpuscopeError as error:
        return ((words, error.what),)
    return ((words, Text("No candidate was like this. {outcome}", outcome=told)),)


def _halves(plan: ServingPlan, choice: ServingChoice) -> Deployment:
    """Prompts on one half of the devices, answers on the other.

    Raises:
        InvalidValueError: one device alone.
        GpuscopeError: a half has no room, or no link joins them.
    """
    half = choice.cluster.n_devices // 2
    if half < 1:
        raise InvalidValueError(
            Text("One device cannot be halved: {cluster}.", cluster=choice.cluster.name)
        )
    cluster, tp = build_cluster(choice.cluster.device, half), min(choice.tp, half)
    part = replace(choice, cluster=cluster, tp=tp, replicas=max(1, half // tp))
    return apart(*(deployed(plan.question, part) for _ in range(2)))
