"""Layers in stages on devices of their own (`gpuscope.serving.pipeline`)."""

from __future__ import annotations

from collections.abc import Mapping

from gpuscope.planning.serving.splits.registry import SPLITS, Read, Split, Write, powers
from gpuscope.planning.serving.types import ServingChoice
from gpuscope.program.models.parallel.size import TransformerSize


def _values(size: TransformerSize, tp: int, devices: int) -> tuple[int, ...]:
    return tuple(n for n in powers(devices // tp) if n <= size.layers and devices % (n * tp) == 0)


def _write(name: str) -> Write:
    return lambda choice, value: {name: str(value)}


def _read(name: str) -> Read:
    def made(
        found: Mapping[str, int], choice: ServingChoice, size: TransformerSize
    ) -> ServingChoice:
        return choice.split("pp", found.get(name, 1))

    return Read((name,), (), made)


_NAMES = {"vllm": "pipeline-parallel-size", "sglang": "pp-size"}

SPLITS.add(
    "pp",
    Split(
        name="pp",
        multiplies=True,
        values=_values,
        write={server: _write(name) for server, name in _NAMES.items()},
        read={server: _read(name) for server, name in _NAMES.items()},
    ),
)
