"""Groups of a replica's devices that attend to requests of their own and share the experts
(`gpuscope.serving.lockstep`).

vLLM calls each group an engine of its data parallelism, and a model with experts shares these among
all of them; SGLang has an option of its own for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuscope.planning.serving.splits.registry import SPLITS, Options, Read, Split, powers
from gpuscope.planning.serving.types import ServingChoice
from gpuscope.program.models.parallel.size import TransformerSize


def _values(size: TransformerSize, tp: int, devices: int) -> tuple[int, ...]:
    return powers(tp) if size.experts is not None else ()


def _vllm(choice: ServingChoice, value: int) -> Options:
    return {"tensor-parallel-size": str(choice.tp // value), "data-parallel-size": str(value)}


def _sglang(choice: ServingChoice, value: int) -> Options:
    return {"dp": str(value), "enable-dp-attention": ""}


def _read_vllm(
    found: Mapping[str, int], choice: ServingChoice, size: TransformerSize
) -> ServingChoice:
    groups = choice.replicas
    if size.experts is None or groups == 1:
        return choice
    return replace(choice, tp=choice.tp * groups, replicas=1).split("dp", groups)


def _read_sglang(
    found: Mapping[str, int], choice: ServingChoice, size: TransformerSize
) -> ServingChoice:
    return replace(choice, replicas=1).split("dp", choice.replicas) if found else choice


SPLITS.add(
    "dp",
    Split(
        name="dp",
        multiplies=False,
        values=_values,
        write={"vllm": _vllm, "sglang": _sglang},
        read={
            "vllm": Read((), (), _read_vllm),
            "sglang": Read((), ("enable-dp-attention",), _read_sglang),
        },
    ),
)
