"""The search for the largest size that fits, on peaks that are known."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.explanation.memory_fit import largest


@dataclass
class Straight:
    """Stands in for a case: a peak that is a straight line over the size, and holes."""

    here: int
    fixed: int
    each: int
    capacity_bytes: int
    holes: float = 0.0
    most: int = 2**30
    name: str = "batch"
    asked: list[int] = field(default_factory=list)

    @property
    def sizes(self) -> dict[str, int]:
        return {self.name: self.here}

    def at(self, value: int) -> tuple[int, bool]:
        peak = self.fixed + self.each * value
        return peak, peak * (1 + self.holes) <= self.capacity_bytes

    @property
    def peak_bytes(self) -> int:
        return self.at(self.here)[0]

    @property
    def fits(self) -> bool:
        return self.at(self.here)[1]

    def resident_bytes(self) -> int:
        return self.fixed

    def probe(self, **options: int) -> tuple[int, bool] | None:
        (value,) = options.values()
        self.asked.append(value)
        return self.at(value) if value <= self.most else None


@given(st.integers(1, 64), st.integers(0, 10**9), st.integers(1000, 10**8), st.integers(1, 2000))
def test_a_straight_line_is_found_exactly(here: int, fixed: int, each: int, fitting: int) -> None:
    case = Straight(here, fixed, each, fixed + each * fitting + each // 2)
    found = largest(case, "batch")  # type: ignore[arg-type]
    assert (found.most, found.next) == (fitting, fitting + 1)
    assert found.exact
    assert len(case.asked) <= 4
    assert found.bytes_each == pytest.approx(each)


@given(st.integers(1, 64), st.integers(1, 500), st.floats(0, 0.2))
def test_with_holes_what_is_said_is_true(here: int, fitting: int, holes: float) -> None:
    case = Straight(here, 10**9, 10**7, 10**9 + 10**7 * fitting, holes)
    found = largest(case, "batch")  # type: ignore[arg-type]
    if found.most:
        assert case.at(found.most)[1]
    if found.next is not None:
        assert not case.at(found.next)[1]
        assert found.next > found.most
    assert [p.value for p in found.points] == sorted({here, *case.asked})


def test_nothing_fits() -> None:
    found = largest(Straight(8, 10**10, 10**6, 10**9), "batch")  # type: ignore[arg-type]
    assert found.most == 0
    assert found.next == 1


def test_lengths_go_in_steps_of_64() -> None:
    case = Straight(1000, 10**9, 10**6, 6 * 10**9, name="seq")
    found = largest(case, "seq")  # type: ignore[arg-type]
    assert found.most <= 5000 < found.most + 2 * 64
    assert all(value % 64 == 0 for value in case.asked)


def test_a_size_that_cannot_be_ends_the_search() -> None:
    case = Straight(8, 10**9, 10**6, 6 * 10**9, most=100)
    found = largest(case, "batch")  # type: ignore[arg-type]
    assert (found.most, found.next, found.exact) == (8, None, False)


@pytest.mark.parametrize("holes", [0.05, 0.1, 0.15])
def test_holes_do_not_end_the_search_far_below(holes: float) -> None:
    case = Straight(32, 10**9, 10**7, 10**9 + 10**7 * 800, holes)
    found = largest(case, "batch")  # type: ignore[arg-type]
    assert found.most > 32
    assert found.next is not None
    assert found.next < 2 * found.most


@dataclass
class Flat(Straight):
    """A peak that lies elsewhere for small sizes."""

    def at(self, value: int) -> tuple[int, bool]:
        peak = max(self.fixed, self.each * value) - value  # a little less at first
        return peak, peak <= self.capacity_bytes


def test_one_more_is_told_from_where_it_costs() -> None:
    found = largest(Flat(1, 10**9, 10**6, 10**11), "batch")  # type: ignore[arg-type]
    assert found.bytes_each == pytest.approx(10**6, rel=0.02)
    flat = largest(Flat(1, 10**9, 0, 10**11), "batch")  # type: ignore[arg-type]
    assert flat.bytes_each is None
