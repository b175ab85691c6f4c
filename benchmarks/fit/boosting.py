"""Gradient boosting of oblivious trees for sums of terms, in numpy.

A call takes the sum over its operators of physical_i * exp(r_i). Every operator belongs to a group
(a kind of kernel) that has its own trees; the trees of all groups grow together, a round at a time,
on the logarithm of what the call took over what it is predicted to take. Errors beyond `CLIP` count
as `CLIP`, so that few calls that are far off do not lead the fit.

An oblivious tree asks the same question of all its branches on a level: quick to evaluate, hard to
overfit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CLIP = 0.15
BINS = 24
DEPTH = 5
RATE = 0.1
SHRINK = 3.0
"""Calls' worth of "no residual" that every leaf is averaged with."""

NEVER = 1e30
"""A threshold that nothing is above."""


@dataclass(frozen=True)
class Data:
    """Operators of measured calls.

    Attributes:
        x: (operators, features).
        call: (operators,) which call each belongs to.
        group: (operators,) its kind.
        level: (operators,) its name within the kind.
        physical_s: (operators,) by the physical model.
        bound: (operators,) largest |r|.
        measured_s: (calls,).
    """

    x: Floats
    call: Ints
    group: npt.NDArray[np.str_]
    level: npt.NDArray[np.str_]
    physical_s: Floats
    bound: Floats
    measured_s: Floats

    def only(self, calls: npt.NDArray[np.bool_]) -> Data:
        """The calls of a mask."""
        keep = calls[self.call]
        new = np.cumsum(calls) - 1
        return Data(
            self.x[keep],
            new[self.call[keep]],
            self.group[keep],
            self.level[keep],
            self.physical_s[keep],
            self.bound[keep],
            self.measured_s[calls],
        )

    def predicted_s(self, r: Floats) -> Floats:
        """What the calls take with these residuals."""
        seconds = self.physical_s * np.exp(np.clip(r, -self.bound, self.bound))
        return np.bincount(self.call, seconds, len(self.measured_s))


@dataclass
class Tree:
    """One oblivious tree."""

    feature: Ints
    threshold: Floats
    leaf: Floats

    def value(self, x: Floats) -> Floats:
        bits = x[:, self.feature] > self.threshold
        return np.asarray(self.leaf[bits @ (1 << np.arange(len(self.feature) - 1, -1, -1))])


@dataclass
class Fitted:
    """Levels by name and trees by group."""

    levels: dict[str, float]
    trees: dict[str, list[Tree]] = field(default_factory=dict)

    def r(self, data: Data, rounds: Mapping[str, int] | None = None) -> Floats:
        """Before bounds; with so many trees of each group (all by default)."""
        r = np.array([self.levels.get(name, 0.0) for name in data.level])
        for group, trees in self.trees.items():
            at = data.group == group
            for tree in trees[: None if rounds is None else rounds.get(group, 0)]:
                r[at] += tree.value(data.x[at])
        return r


def fit(
    data: Data,
    rounds: int,
    features: Sequence[int] | None = None,
    watch: Callable[[int, Fitted], None] | None = None,
) -> Fitted:
    """Levels, then `rounds` trees a group.

    Args:
        data: what to learn from.
        rounds: trees of each group.
        features: places that may be asked about; all by default.
        watch: called after every round.
    """
    asked = np.arange(data.x.shape[1]) if features is None else np.asarray(features)
    known, at_level = np.unique(data.level, return_inverse=True)
    error, weight = _error(data, np.zeros(len(data.x)))
    sums = np.bincount(at_level, error * weight, len(known))
    values = sums / (np.bincount(at_level, weight, len(known)) + SHRINK)
    found = Fitted({n: float(f"{v:.4f}") for n, v in zip(known, values, strict=True)})
    r = found.r(data)
    groups = {g: np.flatnonzero(data.group == g) for g in np.unique(data.group)}
    binned = {g: _Binned.of(data.x[at], asked) for g, at in groups.items()}
    for turn in range(rounds):
        error, weight = _error(data, r)
        for group, at in groups.items():
            tree = binned[group].tree(error[at], weight[at])
            if tree is not None:
                found.trees.setdefault(group, []).append(tree)
                r[at] += tree.value(data.x[at])
        if watch is not None:
            watch(turn, found)
    return found


def _error(data: Data, r: Floats) -> tuple[Floats, Floats]:
    """Each operator's error (its call's) and weight (its share of the call)."""
    predicted_s = data.predicted_s(r)
    error = np.clip(np.log(data.measured_s / predicted_s), -CLIP, CLIP)
    own_s = data.physical_s * np.exp(np.clip(r, -data.bound, data.bound))
    return error[data.call], own_s / predicted_s[data.call]


@dataclass
class _Binned:
    """A group's features in bins."""

    features: Ints
    edges: list[Floats]
    bins: Ints

    @classmethod
    def of(cls, x: Floats, asked: Ints) -> _Binned:
        features, edges, bins = [], [], []
        for place in asked:
            values = np.unique(x[:, place])
            if len(values) < 2:
                continue
            middle = (values[1:] + values[:-1]) / 2
            if len(middle) > BINS - 1:
                spread = np.quantile(x[:, place], np.linspace(0, 1, BINS + 1)[1:-1])
                middle = np.unique(middle[np.searchsorted(middle, spread).clip(0, len(middle) - 1)])
            middle = np.array([float(f"{m:.4g}") for m in middle])
            features.append(place)
            edges.append(middle)
            bins.append((x[:, place][:, None] > middle).sum(1))
        table = np.array(bins, np.int64).reshape(-1, len(x))
        return cls(np.array(features, np.int64), edges, table)

    def tree(self, error: Floats, weight: Floats) -> Tree | None:
        """The tree that takes most of the squared error, greedily by level; None if none helps."""
        leaf = np.zeros(len(error), np.int64)
        asked: list[int] = []
        above: list[float] = []
        for level in range(DEPTH):
            best = self._split(leaf, 1 << level, error * weight, weight)
            if best is None:
                break
            column, at = best
            leaf = 2 * leaf + (self.bins[column] > at)
            asked.append(int(self.features[column]))
            above.append(float(self.edges[column][at]))
        if not asked:
            return None
        size = 1 << len(asked)
        pulls, weights = np.bincount(leaf, error * weight, size), np.bincount(leaf, weight, size)
        values = pulls / (weights + SHRINK)
        while len(asked) < DEPTH:  # a level that asks nothing: all trees have one depth
            asked.append(asked[-1])
            above.append(NEVER)
            values = np.repeat(values, 2)
        return Tree(
            np.array(asked), np.array(above), np.array([float(f"{RATE * v:.4f}") for v in values])
        )

    def _split(
        self, leaf: Ints, leaves: int, pull: Floats, weight: Floats
    ) -> tuple[int, int] | None:
        """The column and bin with the largest gain over not splitting."""
        cells = leaf * BINS + self.bins
        cells = cells + np.arange(len(self.bins))[:, None] * leaves * BINS
        shape = (len(self.bins), leaves, BINS)
        total = int(np.prod(shape))
        g = np.bincount(cells.ravel(), np.tile(pull, len(self.bins)), total).reshape(shape)
        h = np.bincount(cells.ravel(), np.tile(weight, len(self.bins)), total).reshape(shape)
        left_g, left_h = g.cumsum(2), h.cumsum(2)
        all_g, all_h = left_g[:, :, -1:], left_h[:, :, -1:]
        gain = left_g**2 / (left_h + SHRINK) + (all_g - left_g) ** 2 / (all_h - left_h + SHRINK)
        gain = (gain - all_g**2 / (all_h + SHRINK)).sum(1)
        for column, edges in enumerate(self.edges):
            gain[column, len(edges) :] = -1.0
        column, at = divmod(int(gain.argmax()), BINS)
        return (column, at) if gain[column, at] > 1e-9 else None
