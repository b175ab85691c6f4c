"""Lives of storages at full depth: where the new ones of every chain are born and freed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from gpuscope.program.fold_chains import Chain
from gpuscope.program.fold_layers import LEAD, TAIL, NotFoldableError, Stack
from gpuscope.program.fold_lists import grown_bytes
from gpuscope.program.fold_places import Place, Places
from gpuscope.program.types import Storage

__all__ = ["MemoryGrower"]


@dataclass(frozen=True, slots=True)
class _Life:
    """A storage with its first operator and the last one before it is freed (None: never)."""

    storage: Storage
    born: Place
    last: Place | None

    @property
    def places(self) -> tuple[Place | None, Place | None]:
        return self.born, self.last


def _follows(later: Place | None, earlier: Place | None) -> bool:
    if later is None or earlier is None:
        return later is earlier
    return later.follows(earlier)


class MemoryGrower:
    """Settles where each chain is lengthened, and makes the storages of the grown program.

    Args:
        storages: of the shallow program.
        places: positions in both programs.
        stack: the repeated layers.
        first_id: a storage id from which on none is taken.
    """

    def __init__(
        self, storages: Sequence[Storage], places: Places, stack: Stack, first_id: int
    ) -> None:
        self.places, self.stack, self._next = places, stack, first_id
        self._lives = {s.id: self._life(s) for s in storages}
        self._made: dict[int, list[Storage]] = {}
        self._shift: dict[int, int] = {}

    def _life(self, storage: Storage) -> _Life:
        last = None if storage.died is None else self.places.of(storage.died - 1)
        return _Life(storage, self.places.of(storage.born), last)

    # ---- chains ---------------------------------------------------------------------------

    def settle(self, chain: Chain, first: int, last: int) -> None:
        """Choose where `chain` is lengthened and make its new storages.

        Args:
            chain: its `split` and `fresh` are set.
            first, last: allowed range of the split, from operators outside of the segments.

        Raises:
            NotFoldableError: no place fits, or lives differ from layer to layer.
        """
        copies = self.places.copies
        chain.fresh = self._next
        self._next += copies
        lives = [self._lives.get(number) for number in chain.elements]
        first, last = self._narrow(lives, first, last)
        if first > last:
            raise NotFoldableError("a tensor is used at both ends of the stack")
        chain.split = first
        models = [i for i in range(len(lives)) if self._is_model(lives, i)]
        for i in models:
            low, high = self._range(lives[i], i, first, last)
            if low <= high:
                chain.split = low
                self._make(chain, lives[i], i)
                break
        else:
            if any(lives):
                raise NotFoldableError(f"no layer shows how long {lives} lives")
        self._check(lives, models)
        for i, number in enumerate(chain.elements):
            self._shift[number] = copies if i >= chain.split else 0

    def _narrow(self, lives: Sequence[_Life | None], first: int, last: int) -> tuple[int, int]:
        """Freed at one end of the stack, unlike its neighbours: it belongs to that end."""
        for i, life in enumerate(lives):
            if life is None or life.last is None or life.last.repeated:
                continue
            if not self._like_neighbour(lives, i, 1):
                side = self.places.side(life.last.at)
                first = max(first, i + 1) if side == LEAD else first
                last = min(last, i) if side == TAIL else last
        return first, last

    @staticmethod
    def _like_neighbour(lives: Sequence[_Life | None], i: int, which: int) -> bool:
        """Whether a neighbour in the chain is born (0) or freed (1) at the same operator."""
        own = lives[i]
        assert own is not None
        for j in (i - 1, i + 1):
            other = lives[j] if 0 <= j < len(lives) else None
            if other is not None and other.places[which] == own.places[which]:
                return True
        return False

    def _is_model(self, lives: Sequence[_Life | None], i: int) -> bool:
        """Whether the life of element `i` says how its neighbours' copies live."""
        life = lives[i]
        return life is not None and all(
            (place is not None and place.repeated) or self._like_neighbour(lives, i, which)
            for which, place in enumerate(life.places)
        )

    @staticmethod
    def _range(life: _Life | None, i: int, first: int, last: int) -> tuple[int, int]:
        """Splits for which all new places exist: segments 1 .. copies + 2."""
        assert life is not None
        segments = [p.segment for p in life.places if p is not None and p.repeated]
        if not segments:
            return first, last
        return max(first, i + 1 - min(segments)), min(last, i + 3 - max(segments))

    def _make(self, chain: Chain, life: _Life | None, i: int) -> None:
        assert life is not None
        made = []
        for turn in range(self.places.copies):
            periods = chain.split + turn - i
            made.append(
                replace(
                    life.storage,
                    id=chain.fresh + turn,
                    born=self.places.index(life.born, periods),
                    died=self._died(life.last, periods),
                    module=self.stack.moved(life.storage.module, periods),
                )
            )
        self._made[chain.elements[max(chain.split - 1, 0)]] = made

    def _died(self, last: Place | None, periods: int) -> int | None:
        return None if last is None else self.places.index(last, periods) + 1

    @staticmethod
    def _check(lives: Sequence[_Life | None], models: Sequence[int]) -> None:
        """Neighbours must live alike where both places repeat."""
        for earlier, later in pairwise(lives):
            if earlier is None or later is None:
                continue
            for a, b in zip(earlier.places, later.places, strict=True):
                both = a is not None and b is not None and a.repeated and b.repeated
                if both and not _follows(b, a):
                    raise NotFoldableError(f"lives differ: {earlier.storage}, {later.storage}")
        kinds = {
            (life.storage.nbytes, life.storage.category, life.storage.label)
            for i in models
            if (life := lives[i]) is not None
        }
        if len(kinds) > 1:
            raise NotFoldableError(f"memory differs between neighbouring layers: {kinds}")

    # ---- all storages ---------------------------------------------------------------------

    def storages(self, vectors: Mapping[int, tuple[int, int]]) -> tuple[Storage, ...]:
        """All storages of the grown program; call after every chain is settled.

        Args:
            vectors: elements before and after of vectors with one number per parameter.
        """
        out: list[Storage] = []
        for number, life in self._lives.items():
            periods = self._shift.get(number)
            if periods is None:
                periods = self._shift_of_unchained(life)
                deeper = self.places.copies if self.stack.zone(life.storage.module) == TAIL else 0
            else:
                deeper = periods
            out.append(
                replace(
                    life.storage,
                    born=self.places.index(life.born, periods),
                    died=self._died(life.last, periods),
                    module=self.stack.moved(life.storage.module, deeper),
                    nbytes=grown_bytes(life.storage.nbytes, number, vectors),
                )
            )
            out += self._made.get(number, ())
        return tuple(out)

    def _shift_of_unchained(self, life: _Life) -> int:
        """Which end of the stack a storage belongs to that only dies among the repeated layers."""
        if life.born.repeated:
            raise NotFoldableError(f"memory without a counterpart: {life.storage}")
        if life.last is None or not life.last.repeated:
            return 0
        side = self.places.side(life.born.at)
        if side is None or life.born.at < 0:
            raise NotFoldableError(f"memory freed inside of a layer: {life.storage}")
        return self.places.copies if side == TAIL else 0
