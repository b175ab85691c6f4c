"""Gradient boosting of oblivious trees for sums of terms, in numpy.

A call takes the sum over its operators of physical_i * exp(r_i). Every operator belongs to a group
(a kind of kernel) that has its own trees; the trees of all groups grow together, a round at a time,
on the logarithm of what the call took over what it is predicted to take. Errors beyond `CLIP` count
as `CLIP`, so that few calls that are far off do not lead the fit. What is judged is the error
relative to what was measured: a call that takes thrice as long as predicted is off by two thirds,
one that takes a third by two. So calls count the more the less they took (`POWER`).

An oblivious tree asks the same question of all its branches on a level: quick to evaluate, hard to
overfit.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CLIP = 0.15
BINS = 24
SHRINK = 3.0
"""Calls' worth of "no residual" that every leaf is averaged with."""

POWER, FARTHEST = 0.5, 3.0
"""A call counts by physical over measured time, at most so many times off, to this power."""

SHARE, LEAST_ASKED = 1 / 3, 8
"""Of the features, drawn anew for each tree, that it may ask about, and how many at least."""

NEVER = 1e30
"""A threshold that nothing is above."""


@dataclass(frozen=True)
class Form:
    """The trees of a group.

    Attributes:
        rounds: how many.
        depth: questions of each.
        rate: how much of what a leaf finds it says.
    """

    rounds: int
    depth: int = 5
    rate: float = 0.1


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


def fit(data: Data, form: Form, forms: Mapping[str, Form] | None = None) -> Fitted:
    """Levels, then the trees of each group.

    Args:
        data: what to learn from.
        form: of every group's trees...
        forms: ... but of these.
    """
    known, at_level = np.unique(data.level, return_inverse=True)
    counts = _counts(data)
    error, weight = _error(data, np.zeros(len(data.x)), counts)
    sums = np.bincount(at_level, error * weight, len(known))
    values = sums / (np.bincount(at_level, weight, len(known)) + SHRINK)
    found = Fitted({n: float(f"{v:.4f}") for n, v in zip(known, values, strict=True)})
    r = found.r(data)
    of = {str(g): (forms or {}).get(str(g), form) for g in np.unique(data.group)}
    groups = {g: np.flatnonzero(data.group == g) for g in of}
    binned = {g: _Binned.of(data.x[at]) for g, at in groups.items()}
    draws = {g: np.random.default_rng(zlib.crc32(g.encode())) for g in of}
    for turn in range(max((each.rounds for each in of.values()), default=0)):
        error, weight = _error(data, r, counts)
        for group, at in groups.items():
            if turn >= of[group].rounds:
                continue
            tree = binned[group].some(draws[group]).tree(error[at], weight[at], of[group])
            if tree is not None:
                found.trees.setdefault(group, []).append(tree)
                r[at] += tree.value(data.x[at])
    return found


def _counts(data: Data) -> Floats:
    """By how much each call counts, one in the mean."""
    ratio = data.predicted_s(np.zeros(len(data.x))) / data.measured_s
    counts = np.clip(ratio, 1 / FARTHEST, FARTHEST) ** POWER
    return np.asarray(counts / counts.mean())


def _error(data: Data, r: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Each operator's error (its call's) and weight (its share of the call, by its count)."""
    predicted_s = data.predicted_s(r)
    error = np.clip(np.log(data.measured_s / predicted_s), -CLIP, CLIP)
    own_s = data.physical_s * np.exp(np.clip(r, -data.bound, data.bound))
    return error[data.call], own_s * (counts / predicted_s)[data.call]


@dataclass
class _Binned:
    """A group's features in bins."""

    features: Ints
    edges: list[Floats]
    bins: Ints

    @classmethod
    def of(cls, x: Floats) -> _Binned:
        features, edges, bins = [], [], []
        for place in range(x.shape[1]):
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

    def some(self, rng: np.random.Generator) -> _Binned:
        """A draw of the features."""
        all_of = len(self.features)
        many = min(all_of, max(LEAST_ASKED, round(all_of * SHARE)))
        at = np.sort(rng.choice(all_of, many, replace=False))
        return _Binned(self.features[at], [self.edges[i] for i in at], self.bins[at])

    def tree(self, error: Floats, weight: Floats, form: Form) -> Tree | None:
        """The tree that takes most of the squared error, greedily by level; None if none helps."""
        leaf = np.zeros(len(error), np.int64)
        asked: list[int] = []
        above: list[float] = []
        for level in range(form.depth):
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
        while len(asked) < form.depth:  # a level that asks nothing: all trees have one depth
            asked.append(asked[-1])
            above.append(NEVER)
            values = np.repeat(values, 2)
        return Tree(
            np.array(asked),
            np.array(above),
            np.array([float(f"{form.rate * v:.4f}") for v in values]),
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
