"""Whole experts on each device of a replica, in place of a part of every one.

vLLM shares them over all devices of a replica or not at all; SGLang names how many share them.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.planning.serving.splits.registry import SPLITS, Options, Read, Split
from gpuscope.planning.serving.types import ServingChoice
from gpuscope.program.models.parallel.size import TransformerSize


def _values(size: TransformerSize, tp: int, devices: int) -> tuple[int, ...]:
    shared = size.experts is not None and tp > 1 and size.experts.count % tp == 0
    return (tp,) if shared else ()


def _vllm(choice: ServingChoice, value: int) -> Options:
    if value != choice.tp:
        raise UnsupportedError(
            Text("vLLM cannot share experts among {ep} of {tp} devices.", ep=value, tp=choice.tp),
            Text("Each replica's devices share them all, or each has a part of every one."),
            Text("Type: --for sglang"),
        )
    return {"enable-expert-parallel": ""}


def _sglang(choice: ServingChoice, value: int) -> Options:
    return {"ep-size": str(value)}


def _read_vllm(
    found: Mapping[str, int], choice: ServingChoice, size: TransformerSize
) -> ServingChoice:
    return choice.split("ep", choice.tp if found and size.experts else 1)


def _read_sglang(
    found: Mapping[str, int], choice: ServingChoice, size: TransformerSize
) -> ServingChoice:
    return choice.split("ep", found.get("ep-size", 1))


SPLITS.add(
    "ep",
    Split(
        name="ep",
        multiplies=False,
        values=_values,
        write={"vllm": _vllm, "sglang": _sglang},
        read={
            "vllm": Read((), ("enable-expert-parallel",), _read_vllm),
            "sglang": Read(("ep-size",), (), _read_sglang),
        },
    ),
)
