"""What a user asks for becomes a checked `Question`; needs no torch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import inf
from pathlib import Path

from gpuscope.document.quantities import Number
from gpuscope.document.text import Text, joined
from gpuscope.errors import InvalidValueError, UnsupportedError
from gpuscope.hardware import Cluster, parse_overrides, parse_target
from gpuscope.hardware.grid import grid_factor
from gpuscope.planning.budget import WITHIN_S
from gpuscope.planning.dimensions.registry import refuse_lacking, tries_of
from gpuscope.planning.figures.registry import goal_of
from gpuscope.planning.frameworks import refuse_other_task
from gpuscope.planning.limits import Most, capped, limits_of
from gpuscope.planning.prices import prices_of, with_prices
from gpuscope.planning.types import Question
from gpuscope.planning.writers import WRITERS
from gpuscope.program.models.parallel.published import published_model
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.program.models.registry import find
from gpuscope.program.models.settings import positive

__all__ = ["clusters_of", "counts_of", "question_of", "size_of", "tokens_of"]

_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}


def question_of(
    model: str,
    *,
    on: str | Sequence[str] = "h200",
    devices: str | int | Sequence[int] = 8,
    global_batch: int = 64,
    seq: int = 4096,
    goal: str = "time",
    tokens: float | None = None,
    simulate: int = 8,
    prices: Path | None = None,
    grid: str | None = None,
    device_set: str | None = None,
    framework: str | None = None,
    precision: str | Sequence[str] | None = None,
    states: str | Sequence[str] | None = None,
    offload: str | Sequence[str] | None = None,
    sp: str | Sequence[str] | None = None,
    etp: str | int | Sequence[str] | None = None,
    limit: str | None = None,
    within: float | None = None,
) -> Question:
    """Check everything.

    Args:
        model: name of a built-in decoder.
        on: devices of the catalogue, "h100,h200".
        devices: how many: 8, "1..8" (powers of two that nodes of the device allow), or several.
        global_batch: sequences of a step of the whole job.
        seq: tokens of a sequence.
        goal: "time", "cost" or "energy".
        tokens: of the whole training.
        simulate: how many candidates are simulated.
        prices: a file with prices of devices (`gpuscope.planning.prices`); others are the
            catalogue's.
        grid: the electricity's: a country's two letters, or grams of CO2 a kWh; None: the world's.
        device_set: figures that each device has instead of its own: "memory=288GB,bandwidth=8TB/s".
        framework: only what this one can start is offered.
        precision: "bf16", "fp8" or both, "bf16,fp8".
        states: what AdamW keeps its moments in: "float32", "bf16", "8bit" or several.
        offload: "none", "cpu" (what a rank holds lies in the host's memory) or both.
        sp: sequence parallelism beside tensor parallelism: "on", "off" or both.
        etp: ranks that each expert's matrices are cut over: 1, 2, 4, 8 or several, "1,2".
        limit: what a step (with `tokens`, all of them) may come to at most,
            "time<7d,cost<5000usd,power<6kW,memory<60GiB".
        within: seconds of processor time that candidates are simulated for, 60 where it is not
            said; 0: all that could win are, however long it takes.

    Raises:
        UnknownNameError: no such model, device, goal, grid, framework, or value of a dimension.
        UnsupportedError: a precision that no device has; a framework that starts no training.
        InvalidValueError: numbers that cannot be.
    """
    goal_of(goal)
    for name, value in (("global_batch", global_batch), ("seq", seq), ("simulate", simulate)):
        positive(name, value)
    within = WITHIN_S if within is None else within
    if not 0 <= within < inf:
        raise InvalidValueError(
            Text("Simulations cannot take {seconds} s.", seconds=Number(within, "g")),
            Text("It is the processor time that they may take; 0 lets all be simulated."),
            Text("Type for example: --within 300"),
        )
    size, limits = size_of(model), limits_of(limit)
    clusters = clusters_of(on, devices, prices, goal, device_set, limits)
    if framework is not None:
        refuse_other_task(framework, "train")
        WRITERS.get(framework)
    beside = {"precision": precision, "states": states, "offload": offload, "sp": sp}
    beside["etp"] = str(etp) if isinstance(etp, int) else etp
    tries = {n: tries_of(n, given) for n, given in beside.items() if given is not None}
    refuse_lacking(tries, size, clusters)
    question = Question(
        model=model,
        size=size,
        clusters=clusters,
        global_batch=global_batch,
        seq=seq,
        goal=goal,
        tokens=tokens,
        simulated=simulate,
        grid=grid_factor(grid),
        tries=tuple(tries.items()),
        framework=framework,
        limits=limits,
        within_s=within,
    )
    _ = question.steps  # refused before anything is captured
    return question


def size_of(model: str) -> TransformerSize:
    """The size of a built-in decoder.

    Raises:
        UnknownNameError: no such model.
        UnsupportedError: it is no decoder of a known kind.
    """
    found = published_model(model) or find(model)
    if found.size is None:
        raise UnsupportedError(
            Text("There is no ready-made parallel program for {model}.", model=found.name),
            Text("There is one for decoders: GPT-2, Llama, Mixtral, Gemma, Qwen, Phi, DeepSeek."),
            Text("Type: gpuscope models"),
        )
    size = found.size()
    if size.pattern:
        raise UnsupportedError(
            Text("There is no plan for {model}: its blocks differ.", model=found.name),
            Text("A plan is made of what one block costs; here each has another part."),
            Text("Predict a layout that you choose: gpuscope predict {model} --help",
                 model=found.name),
        )  # fmt: skip
    return size


def clusters_of(
    on: str | Sequence[str],
    devices: str | int | Sequence[int],
    prices: Path | None = None,
    goal: str = "time",
    device_set: str | None = None,
    limits: Sequence[Most] = (),
) -> tuple[Cluster, ...]:
    """Every device in every number asked for.

    Args:
        on, devices, prices, device_set: as `question_of` takes them.
        goal: "cost" needs the price of each.
        limits: what they leave of a device, and need to know of it.

    Raises:
        UnknownNameError: no such device.
        InvalidValueError: numbers that cannot be, no price where one is needed.
    """
    names = [n.strip() for n in on.split(",") if n.strip()] if isinstance(on, str) else list(on)
    if not names:
        raise InvalidValueError(Text("No device is named."), "", Text("Type: --on h200"))
    ranged = isinstance(devices, str) and ".." in devices
    clusters = _clusters(names, counts_of(devices), ranged)
    if device_set is not None:
        changes = parse_overrides(device_set.split(","))
        clusters = tuple(each.with_device(each.device.replace(**changes)) for each in clusters)
    if prices is not None:
        clusters = with_prices(clusters, prices_of(prices))
    goal_of(goal).needs(clusters)
    return capped(clusters, limits)


def counts_of(devices: str | int | Sequence[int]) -> tuple[int, ...]:
    """Numbers of devices: 8; "1..8" (powers of two, and both ends); "2,4".

    Raises:
        InvalidValueError: no such numbers.
    """
    if isinstance(devices, int):
        counts: Sequence[int] = (devices,)
    elif isinstance(devices, str):
        counts = _written(devices)
    else:
        counts = devices
    if not counts or min(counts) < 1:
        raise _no_number(str(devices))
    return tuple(sorted(set(counts)))


def _written(text: str) -> tuple[int, ...]:
    span = re.fullmatch(r"\s*(\d*)\s*\.\.\s*(\d+)\s*", text)
    if span:
        low, high = int(span[1] or 1), int(span[2])
        if low < 1 or low > high:
            raise _no_number(text)
        powers = (2**n for n in range(high.bit_length()))
        return (low, *(n for n in powers if low < n < high), high)
    if re.fullmatch(r"\s*\d+(\s*,\s*\d+)*\s*", text):
        return tuple(int(part) for part in text.split(","))
    raise _no_number(text)


def _no_number(text: str) -> InvalidValueError:
    return InvalidValueError(
        Text("'{text}' is no number of devices.", text=text),
        Text("They are counted from 1, the lower end first."),
        Text("Type for example: --devices 1..8"),
    )


def tokens_of(text: str) -> float:
    """Tokens as they are written: "100B", "2.5T", "300000".

    Raises:
        InvalidValueError: no such number.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmbt]?)\s*", text, re.IGNORECASE)
    if found is None:
        raise InvalidValueError(
            Text("'{text}' is no number of tokens.", text=text),
            "",
            Text("Type for example: --tokens 100B"),
        )
    return float(found[1]) * _UNITS[found[2].lower()]


def _clusters(names: Sequence[str], counts: Sequence[int], ranged: bool) -> tuple[Cluster, ...]:
    """Each device in each number; of a range those that its nodes allow."""
    found: list[Cluster] = []
    for name in names:
        if "+" in name:
            raise InvalidValueError(
                Text("{name} mixes devices in one job.", name=name),
                Text("All ranks of a plan run on one kind."),
                Text("To choose among them type: --on {names}", names=name.replace("+", ",")),
            )
        if parse_target(name).n_devices > 1:
            raise InvalidValueError(
                Text("{name} names a number of devices.", name=name),
                Text("A plan chooses it."),
                Text("Type for example: --on h200 --devices 8"),
            )
        made = [_joined(name, count) for count in counts]
        can = [each for each in made if isinstance(each, Cluster)]
        cannot = [each for each in made if isinstance(each, InvalidValueError)]
        if cannot and not (ranged and can):
            near = joined((str(n) for n in _near(name, counts[made.index(cannot[0])])), " or ")
            raise InvalidValueError(
                cannot[0].what, cannot[0].why, Text("Type: --devices {counts}", counts=near)
            )
        found += can
    return tuple(found)


def _joined(name: str, count: int) -> Cluster | InvalidValueError:
    """So many of a device; why they cannot be where no shape of nodes has so many."""
    try:
        return parse_target(f"{count}x{name}")
    except InvalidValueError as error:
        return error


def _near(name: str, count: int) -> list[int]:
    """The nearest numbers of a device below and above one that no shape of nodes has."""
    node = parse_target(name).device.devices_per_node or 1
    sides = (range(count - 1, 0, -1), range(count + 1, count + node + 1))
    whole = (next((n for n in side if isinstance(_joined(name, n), Cluster)), 0) for side in sides)
    return [n for n in whole if n]
