"""How collectives run on one machine, as far as its calibration says.

Constants, all of groups inside one scale-up domain: `collective.<protocol>.base_s`, `.link_s` and
`.share`; `collective.<operation>.efficiency_<ranks>` (share of the link's rate that large messages
reach) and `.extra_s`; `collective.nvls.efficiency` and `.enabled`, `collective.collnet.enabled`;
`collective.protocols.measured` (1: each protocol was measured on its own) and
`collective.other_sum.extra_s` (a reduction that is no plain sum); `collective.rate.growth` and
`collective.pairs.growth` (of the rate with every fourfold of a large message).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from gpuscope.cost.collective.types import PROTOCOLS, Protocol, Tuning
from gpuscope.cost.registry import Constants

NCCL = Tuning()
"""Latencies of NCCL's tuner, and one share for all."""


@lru_cache(maxsize=64)
def tuning_of(constants: Constants) -> Tuning:
    """How collectives run, as far as it was measured on the machine.

    Constants that were carried from another device are left out, since links differ: of
    collectives only a device's own say anything.
    """
    calibration = constants.calibration
    own = {
        name.removeprefix("collective."): calibration.value(name)
        for name in calibration.names("collective")
        if calibration.origin(name) in ("calibrated", "measured")
    }
    shares: dict[str, list[tuple[int, float]]] = {}
    for name, value in own.items():
        operation, _, what = name.rpartition(".")
        if what.startswith("efficiency_"):
            shares.setdefault(operation, []).append((int(what.rpartition("_")[2]), value))
    return Tuning(
        _protocols(own),
        {operation: tuple(sorted(s)) for operation, s in shares.items()},
        {n.rpartition(".")[0]: v for n, v in own.items() if n.endswith(".extra_s")},
        own.get("nvls.enabled", 1.0) > 0,
        own.get("nvls.efficiency", NCCL.nvls_share),
        own.get("collnet.enabled", 0.0) > 0,
        any(n.endswith(".link_s") for n in own),
        own.get("protocols.measured", 0.0) > 0,
        own.get("other_sum.extra_s", 0.0),
        own.get("rate.growth", 0.0),
        own.get("pairs.growth", 0.0),
    )


def _protocols(own: dict[str, float]) -> tuple[Protocol, ...]:
    """The protocols with their own constants.

    A step under Simple ends with a fence and a flag that the receiver polls, so it cannot be
    shorter than one under LL, which has the flag alone. A fit to few ranks cannot tell a step's
    latency from the base, and may put nearly all into the base.
    """
    found = tuple(
        replace(
            p,
            base_s=own.get(f"{p.name}.base_s", p.base_s),
            link_s=own.get(f"{p.name}.link_s", p.link_s),
            share=own.get(f"{p.name}.share", p.share),
        )
        for p in PROTOCOLS
    )
    least_s = next(p.link_s for p in found if p.name == "LL")
    return tuple(replace(p, link_s=max(p.link_s, least_s)) for p in found)
