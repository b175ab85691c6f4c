"""What would make a step fit that does not: options with the memory that each would need.

Each option changes one thing of the memory at the peak, by category, and leaves the rest as it
is; combinations apply several in turn. They are estimates: predict the changed program to be sure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from gpuscope.analysis.types import MemoryStory
from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text, joined
from gpuscope.program.types import Program

EIGHT_BIT_STATE = 1 + 4 / 256
"""Bytes an element of an 8-bit optimizer state takes: one, and a float32 scale for each block of
256 (Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization": 2048 then; the
bitsandbytes library now uses 256)."""

MOST_DEVICES = 1024
"""Sharding is not proposed over more devices than this."""

_PER_SAMPLE = ("activation", "temporary", "input", "cache")
_SHARDED = ("parameter", "gradient", "optimizer_state")


@dataclass(frozen=True, slots=True)
class FitOption:
    """One change, or several together, with what the step would then need.

    Attributes:
        name: a stable word ("smaller_batch", "checkpointing", "sharding", ...); of several
            changes joined by "+".
        needed_bytes: what the step would need on each device.
        saves_bytes: how much less that is.
        fits: whether that is within the capacity.
        text: the change and its result in words.
    """

    name: str
    needed_bytes: int
    saves_bytes: int
    fits: bool
    text: Text


@dataclass(frozen=True, slots=True)
class _Need:
    """What a step needs: bytes by category, bytes of no category, and the capacity."""

    at_peak: Mapping[str, float]
    other: float
    capacity: int

    @property
    def total(self) -> float:
        return sum(self.at_peak.values()) + self.other

    def of(self, *categories: str) -> float:
        return sum(self.at_peak.get(category, 0.0) for category in categories)

    def scaled(self, factor: float, *categories: str) -> Mapping[str, float]:
        """Return the categories with some of them scaled."""
        return {k: v * factor if k in categories else v for k, v in self.at_peak.items()}


@dataclass(frozen=True, slots=True)
class _Change:
    """A change in words, with the bytes by category that it leaves."""

    name: str
    after: Mapping[str, float]
    text: Text


_Maker = Callable[[_Need, Program | None], _Change | None]


def fit_options(memory: MemoryStory, program: Program | None = None) -> tuple[FitOption, ...]:
    """Return changes that lower the peak, those that suffice first.

    Each is computed by itself; where none suffices, combinations are tried too. Empty where the
    capacity or what holds the memory is unknown. Without a program only the options that need no
    more than the categories are given.
    """
    if memory.capacity_bytes is None or not memory.at_peak:
        return ()
    total = memory.peak_bytes
    if memory.missing_bytes:
        total = max(total, memory.capacity_bytes + memory.missing_bytes)
    known = sum(memory.at_peak.values())
    need = _Need(memory.at_peak, total - known, memory.capacity_bytes)
    options = [_option(need, program, (maker,)) for maker in _SINGLE]
    if not any(option is not None and option.fits for option in options):
        options += [_option(need, program, makers) for makers in _COMBINED]
    found = [option for option in options if option is not None and option.saves_bytes > 0]
    return tuple(sorted(found, key=lambda option: not option.fits))


def _option(need: _Need, program: Program | None, makers: tuple[_Maker, ...]) -> FitOption | None:
    """Apply changes one after the other; None where one of them does not apply."""
    now, changes = need, []
    for maker in makers:
        change = maker(now, program)
        if change is None:
            return None
        changes.append(change)
        now = replace(now, at_peak=change.after)
    needed = round(now.total)
    return FitOption(
        name="+".join(change.name for change in changes),
        needed_bytes=needed,
        saves_bytes=round(need.total) - needed,
        fits=needed <= need.capacity,
        text=Text(
            "{changes}: about {needed}.",
            changes=joined((change.text for change in changes), " and "),
            needed=Bytes(needed),
        ),
    )


def _smaller_batch(need: _Need, program: Program | None) -> _Change | None:
    """Memory that belongs to samples shrinks in proportion to the batch."""
    samples = program.samples if program else None
    varying = need.of(*_PER_SAMPLE)
    if not samples or samples < 2 or not varying:
        return None
    fixed, each = need.total - varying, varying / samples
    batch = min(samples - 1, int((need.capacity - fixed) // each)) if need.capacity > fixed else 0
    batch = max(1, batch)
    return _Change(
        "smaller_batch",
        need.scaled(batch / samples, *_PER_SAMPLE),
        Text("a batch of {batch} instead of {samples}", batch=batch, samples=samples),
    )


def _checkpointing(need: _Need, program: Program | None) -> _Change | None:
    """Keep only the input of each layer; one layer's activations live during its backward pass."""
    activations = need.of("activation")
    if program is None or not need.of("gradient", "optimizer_state") or not activations:
        return None
    if any(op.recomputed for op in program.ops):
        return None
    layers = _layers(program)
    inside = _activation_share(program, layers)
    if len(layers) < 2 or inside <= 0:
        return None
    kept = inside * activations
    left = min(kept, kept / len(layers) + _layer_inputs(program, layers))
    return _Change(
        "checkpointing",
        need.scaled((activations - kept + left) / activations, "activation"),
        Text(
            "activation checkpointing of the {layers} layers (a forward pass more)",
            layers=len(layers),
        ),
    )


def _eight_bit_states(need: _Need, program: Program | None) -> _Change | None:
    """Optimizer states are taken to have the parameters' dtype, as PyTorch makes them."""
    itemsize = _parameter_itemsize(need, program)
    if not need.of("optimizer_state") or itemsize is None:
        return None
    return _Change(
        "eight_bit_optimizer",
        need.scaled(min(1.0, EIGHT_BIT_STATE / itemsize), "optimizer_state"),
        Text("8-bit optimizer states"),
    )


def _sixteen_bit_weights(need: _Need, program: Program | None) -> _Change | None:
    itemsize = _parameter_itemsize(need, program)
    if itemsize is None or itemsize < 3:
        return None
    return _Change(
        "sixteen_bit_weights",
        need.scaled(0.5, "parameter", "gradient"),
        Text("weights and gradients in bf16"),
    )


def _quantised_weights(need: _Need, program: Program | None) -> _Change | None:
    """For inference: 8-bit weights, or 4-bit ones where 8 bits do not suffice."""
    itemsize = _parameter_itemsize(need, program)
    if itemsize is None or need.of("gradient", "optimizer_state") or itemsize < 1.5:
        return None
    weights = need.of("parameter")
    enough = need.total - weights * (1 - 1 / itemsize) <= need.capacity
    bits = 8 if enough else 4
    return _Change(
        "quantised_weights",
        need.scaled(bits / 8 / itemsize, "parameter"),
        Text("{bits}-bit weights", bits=bits),
    )


def _smaller_cache(need: _Need, program: Program | None) -> _Change | None:
    if not need.of("cache"):
        return None
    return _Change("smaller_cache", need.scaled(0.5, "cache"), Text("an 8-bit key-value cache"))


def _sharding(need: _Need, program: Program | None) -> _Change | None:
    """The least power of two of devices over which the model's own memory fits.

    Two layers' parameters are whole on each device at a time: the one at work and the next.
    """
    sharded = need.of(*_SHARDED)
    if not sharded:
        return None
    gathered = _largest_layer_share(program) * need.of("parameter") * 2
    rest = need.total - sharded + gathered
    devices = 2
    while devices < MOST_DEVICES and rest + sharded / devices > need.capacity:
        devices *= 2
    after = dict(need.scaled(1 / devices, *_SHARDED))
    after["parameter"] = after.get("parameter", 0.0) + gathered
    training = need.of("gradient", "optimizer_state") > 0
    what = Text("weights, gradients and optimizer states") if training else Text("the weights")
    return _Change(
        "sharding",
        after,
        Text("{what} sharded over {devices} devices, on each", what=what, devices=devices),
    )


_SINGLE: tuple[_Maker, ...] = (
    _smaller_batch,
    _checkpointing,
    _eight_bit_states,
    _sixteen_bit_weights,
    _quantised_weights,
    _smaller_cache,
    _sharding,
)

_COMBINED: tuple[tuple[_Maker, ...], ...] = (
    (_checkpointing, _smaller_batch),
    (_quantised_weights, _smaller_cache),
    (_quantised_weights, _smaller_batch),
    (_checkpointing, _sharding),
    (_smaller_batch, _sharding),
    (_checkpointing, _smaller_batch, _sharding),
)


def _parameter_itemsize(need: _Need, program: Program | None) -> float | None:
    """Bytes an element of the parameters takes, rounded to what a dtype can have."""
    nbytes = need.of("parameter")
    if program is None or not program.parameters or not nbytes:
        return None
    ratio = nbytes / program.parameters
    return min((0.5, 1.0, 2.0, 4.0, 8.0), key=lambda size_: abs(size_ - ratio))


def _layers(program: Program) -> tuple[str, ...]:
    """Paths of the model's repeated layers: the largest family of numbered, equal siblings."""
    families: dict[tuple[str, str], list[str]] = {}
    for info in program.modules:
        parent, _, last = info.path.rpartition(".")
        if last.isdecimal():
            families.setdefault((parent, info.class_name), []).append(info.path)
    largest: list[str] = []
    for paths in families.values():
        largest = paths if len(paths) > len(largest) else largest
    return tuple(largest)


def _activation_share(program: Program, layers: tuple[str, ...]) -> float:
    sizes = [(s.nbytes, s.module) for s in program.storages if s.category == "activation"]
    total = sum(nbytes for nbytes, _ in sizes)
    inside = tuple(f"{layer}." for layer in layers)
    held = sum(n for n, module in sizes if f"{module}.".startswith(inside))
    return held / total if total else 0.0


def _layer_inputs(program: Program, layers: tuple[str, ...]) -> int:
    """Bytes of the first tensor that enters each layer."""
    first: dict[str, int] = {}
    pattern = re.compile(rf"^({'|'.join(map(re.escape, layers))})(?:\.|$)")
    for op in program.ops:
        match = pattern.match(op.module) if op.phase == "forward" else None
        if match and match[1] not in first and op.inputs and op.inputs[0].device == "device":
            first[match[1]] = op.inputs[0].nbytes
    return sum(first.values())


def _largest_layer_share(program: Program | None) -> float:
    """Share of the parameters that the largest repeated layer holds; 0 where unknown."""
    if program is None or not program.parameters:
        return 0.0
    layers = _layers(program)
    sizes = [
        sum(i.parameters for i in program.modules if f"{i.path}.".startswith(f"{layer}."))
        for layer in layers[:1]
    ]
    return max(sizes, default=0) / program.parameters
