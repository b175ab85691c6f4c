"""Models packed onto slices (MIG), or onto equal shares, of as few devices as serve what is asked.

1. What a slice can serve of a model within its limits follows from the quick score of `search`.
2. On one device, then on two and so on: of each model every least set of slices that keeps up is
   taken; sets of all models are put together and laid onto devices, where slices begin only at
   certain eighths of the memory; equal shares lie beside their like alone.
3. The fewest devices win, then the least share of them; the best are simulated, slice by slice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

from gpuscope.document.text import Text
from gpuscope.errors import DoesNotFitError, GpuscopeError, InvalidValueError, UnsupportedError
from gpuscope.hardware import Cluster, Device, parse_target
from gpuscope.hardware.cluster import build_cluster
from gpuscope.hardware.shares import shares_of
from gpuscope.hardware.slices import Profile, profiles_of
from gpuscope.planning.question import counts_of
from gpuscope.planning.serving.search import feasible, question_of_serving, scored, simulated
from gpuscope.planning.serving.slice_layouts import Counts, laid, least_sets, together
from gpuscope.planning.serving.sliced_types import WHOLE, Placed, SlicedPlan, SlicedQuestion, Way
from gpuscope.planning.serving.space import deployed
from gpuscope.planning.serving.steady import ERROR, at_concurrency, at_rate
from gpuscope.planning.serving.types import Offered, ServingChoice, ServingQuestion
from gpuscope.serving.engine import engine as profile_of

__all__ = ["PARTS", "is_sliced", "question_of_slices", "search_slices"]

PARTS = ("slices", "mps", "time")
"""After a device's name and a colon: slices (MIG), or equal shares by MPS or time slicing, as few
or as many as do."""

MOST_DEVICES = 4
"""Devices that slices are laid onto; who needs more takes whole ones."""

_CONSIDERED = 5000
"""Combinations of the models' sets that are laid onto devices."""

_MORE = 8
"""Times as many ways are simulated where those before are not sure enough."""


def is_sliced(on: object) -> bool:
    """Whether these devices are parts to be chosen: "h200:slices", "h200:mps", "h200:time"."""
    return isinstance(on, str) and on.strip().lower().rpartition(":")[2] in PARTS and ":" in on


def parts_of(device: Device, part: str) -> tuple[Profile, ...]:
    """What a device may be split into, the least first; () where it may not."""
    return profiles_of(device.id) if part == "slices" else shares_of(device, part)


def question_of_slices(
    model: str,
    *,
    on: str,
    devices: str | int | Sequence[int] = 1,
    rate: float = 0.0,
    simulate: int = 3,
    **asked: object,
) -> SlicedQuestion:
    """Check everything.

    Args:
        model: one, with `rate`; or several with theirs: "llama-3.2-1b=6,qwen3-8b=2".
        on: "h200:slices", "h200:mps" or "h200:time".
        devices: at most.
        rate: requests each second.
        simulate: how many ways are simulated.
        asked: the rest, as `question_of_serving` takes it: of all models.

    Raises:
        UnknownNameError, InvalidValueError, UnsupportedError: as there; a device without slices.
    """
    name, _, part = on.strip().lower().rpartition(":")
    device = parse_target(name).device
    if part != "slices" and not parts_of(device, part):
        raise UnsupportedError(
            Text("{device} is not shared by MPS or by time slicing.", device=device.name),
            Text("Both are NVIDIA's."),
            Text("Type for example: --on h200:{part}", part=part),
        )
    if not parts_of(device, part):
        raise UnsupportedError(
            Text("{device} has no slices in the catalogue.", device=device.name),
            Text("MIG is there on A100, H100 and H200."),
            Text("Type for example: --on h200:slices"),
        )
    pairs = _rates(model, rate)
    demands = tuple(
        question_of_serving(name, on=device.id, devices=1, rate=each, **asked)  # type: ignore[arg-type]
        for name, each in pairs
    )
    return SlicedQuestion(
        device.id, part, demands, min(MOST_DEVICES, max(counts_of(devices))), max(1, simulate)
    )


def _rates(model: str, rate: float) -> list[tuple[str, float]]:
    """Models and what is asked of each.

    Raises:
        InvalidValueError: no number behind a model, or a model twice.
    """
    if "=" not in model:
        return [(model, rate)]
    pairs = []
    for part in model.split(","):
        name, _, number = part.partition("=")
        try:
            pairs.append((name.strip(), float(number)))
        except ValueError:
            raise InvalidValueError(
                Text("'{part}' names no rate.", part=part),
                Text("Several models are each followed by their requests a second."),
                Text("Type for example: llama-3.2-1b=6,qwen3-8b=2"),
            ) from None
    if len({name for name, _ in pairs}) < len(pairs):
        raise InvalidValueError(
            Text("A model is named twice."), "", Text("Add its rates, and name it once.")
        )
    return pairs


@dataclass(frozen=True, slots=True)
class _Room:
    """What one slice can serve of a model: requests each second, and how."""

    rate_per_s: float
    choice: ServingChoice | None


def search_slices(
    question: SlicedQuestion, on_choice: Callable[[int, int, Way], None] | None = None
) -> SlicedPlan:
    """Answer a checked question; interrupted, with the best so far.

    Args:
        question: what `question_of_slices` gave.
        on_choice: told of each way before it is simulated: number, how many, which.

    Raises:
        DoesNotFitError: so many devices, whole or split, do not serve what is asked.
    """
    whole = parse_target(question.device).device
    parts = (e for e in parts_of(whole, question.part) if e.eighths < WHOLE.eighths)
    profiles = (*parts, WHOLE)
    rooms = [[_room(each, _cluster(question, p)) for p in profiles] for each in question.demands]
    served, certainty = _Served(question, on_choice), question.demands[0].certainty
    judged: list[Way] = []
    considered, complete = 0, True
    for devices in range(1, question.devices + 1):
        found = _ways(question, profiles, rooms, devices)
        considered += len(found)
        more, complete = served.best_of(found, certainty, bool(judged))
        judged = [*more, *judged]
        if not complete or any(each.feasible >= certainty for each in more):
            break
    if not judged:
        raise DoesNotFitError(
            Text(
                "{devices} devices, whole or split, do not serve this within its limits.",
                devices=question.devices,
            ),
            Text("A model has no room on a slice, or comes too often."),
            Text("Ask for more (--devices 4), or for whole ones: --on {id}", id=question.device),
        )
    sure = [each for each in judged if each.feasible >= certainty]
    apart = [-(-d.rate_per_s // r[-1].rate_per_s) if r[-1].rate_per_s else None
             for d, r in zip(question.demands, rooms, strict=True)]  # fmt: skip
    alone = None if None in apart else int(sum(each or 0 for each in apart))
    return SlicedPlan(
        question, sure[0] if sure else None, tuple(judged), alone, considered, complete
    )


def _cluster(question: SlicedQuestion, profile: Profile) -> Cluster:
    if profile is WHOLE:
        return question.demands[0].clusters[0]
    return build_cluster(parse_target(f"{question.device}:{profile.name}").device, 1)


def _room(question: ServingQuestion, cluster: Cluster) -> _Room:
    """The most that keeps up and keeps every limit with enough probability, of any dtype."""
    engine = profile_of(question.engine)
    best = _Room(0.0, None)
    for dtype, kv in product(question.dtypes, question.kv_dtypes):
        choice = ServingChoice(cluster, 1, 1, dtype, kv, engine.max_tokens, engine.max_sequences)
        try:
            rate = _most(question, choice)
        except GpuscopeError:
            continue
        if rate > best.rate_per_s:
            best = _Room(rate, choice)
    return best


def _most(question: ServingQuestion, choice: ServingChoice) -> float:
    """Requests each second."""
    found = deployed(question, choice)
    prompt, answer = question.prompt, question.answer
    full = at_concurrency(found, prompt, answer, 4.0 * choice.max_sequences)
    low, high = 0.0, full.tokens_per_s / answer
    for _ in range(14):
        rate = (low + high) / 2
        steady = at_rate(found, prompt, answer, rate)
        headroom = full.tokens_per_s / answer / rate
        if steady is not None and (
            feasible(question, steady, headroom, ERROR, choice.cluster.device) >= question.certainty
        ):
            low = rate
        else:
            high = rate
    return low


def _ways(
    question: SlicedQuestion,
    profiles: Sequence[Profile],
    rooms: Sequence[Sequence[_Room]],
    devices: int,
) -> list[Way]:
    """All ways on so many devices, the least share first."""
    sets = [
        list(least_sets(demand.rate_per_s, [r.rate_per_s for r in room], profiles, devices))
        for demand, room in zip(question.demands, rooms, strict=True)
    ]
    found, scores = [], dict[tuple[str, str, float], Offered]()
    for chosen in islice(together(sets, profiles, devices), _CONSIDERED):
        total = tuple(map(sum, zip(*chosen, strict=True)))
        places = laid(tuple(profiles), total, devices)
        if places is not None and all(map(any, places)):  # else it was found on fewer devices
            found.append(_way(question, profiles, rooms, chosen, places, scores))
    return sorted(found, key=lambda way: (way.share, len(way.placed)))


def _way(
    question: SlicedQuestion,
    profiles: Sequence[Profile],
    rooms: Sequence[Sequence[_Room]],
    chosen: tuple[Counts, ...],
    places: tuple[Counts, ...],
    scores: dict[tuple[str, str, float], Offered],
) -> Way:
    placed = []
    for demand, room, counts in zip(question.demands, rooms, chosen, strict=True):
        served = sum(n * r.rate_per_s for n, r in zip(counts, room, strict=True))
        for count, each, profile in zip(counts, room, profiles, strict=True):
            if not count or each.choice is None:
                continue
            rate = demand.rate_per_s * each.rate_per_s / served
            key = demand.model, profile.name, rate
            if key not in scores:
                scores[key] = scored(replace(demand, rate_per_s=rate), each.choice)
            placed += [Placed(*key, scores[key])] * count
    names = tuple(
        tuple(
            profile.name
            for profile, count in reversed(list(zip(profiles, counts, strict=True)))
            for _ in range(count)
        )
        for counts in places
    )
    share = sum(n * p.share for counts in places for n, p in zip(counts, profiles, strict=True))
    return Way(question.demands[0].clusters[0], names, share, tuple(placed))


class _Served:
    """Simulates ways: a model on a slice at a rate once, wherever it lies."""

    def __init__(
        self, question: SlicedQuestion, on_choice: Callable[[int, int, Way], None] | None
    ) -> None:
        self._wanted, self._tell = question.simulated, on_choice
        self._demands = {each.model: each for each in question.demands}
        self._known: dict[tuple[str, str, float], Placed] = {}

    def best_of(self, found: Sequence[Way], certainty: float, have: bool) -> tuple[list[Way], bool]:
        """Those that were simulated, best first, until enough are sure; whether it went through.

        Args:
            found: the least share first.
            certainty: least probability.
            have: something was simulated before: an interruption ends with that.
        """
        judged: list[Way] = []
        for way in found:
            sure = sum(each.feasible >= certainty for each in judged)
            if sure == self._wanted or len(judged) == _MORE * self._wanted:
                break
            if judged and self._least_known(way) < certainty:
                continue
            try:
                if self._tell:
                    self._tell(len(judged) + 1, max(self._wanted, len(judged) + 1), way)
                judged.append(replace(way, placed=tuple(map(self._one, way.placed))))
            except KeyboardInterrupt:
                if not judged and not have:
                    raise
                return judged, False
        return judged, True

    def _least_known(self, way: Way) -> float:
        """The least probability of what is known of it already; 1 where nothing is."""
        found = [self._known.get((e.model, e.profile, e.rate_per_s)) for e in way.placed]
        return min((each.offered.feasible for each in found if each is not None), default=1.0)

    def _one(self, each: Placed) -> Placed:
        key = each.model, each.profile, each.rate_per_s
        if key not in self._known:
            asked = replace(self._demands[each.model], rate_per_s=each.rate_per_s)
            self._known[key] = replace(each, offered=simulated(asked, each.offered))
        return self._known[key]
