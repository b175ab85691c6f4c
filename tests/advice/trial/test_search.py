"""The search, held against worlds whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuscope.advice.results import Forecast, Parity, Stopped, Trial
from gpuscope.advice.trial.budget import Budget
from gpuscope.advice.trial.search import Search, Wanted
from gpuscope.document.text import Text

Names = tuple[str, ...]
NOTHING = Text("")


@dataclass
class World:
    """What is true (`real`), what is predicted, what breaks; and a clock."""

    real: Mapping[str, float]
    predicted: Mapping[str, float] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)
    conflicts: tuple[frozenset[str], ...] = ()
    slow: frozenset[str] = frozenset()
    trial_s: float = 10.0
    now_s: float = 0.0
    asked: list[tuple[Names, Names]] = field(default_factory=list)
    interrupt_at: int | None = None

    def speed(self, names: Names, of: Mapping[str, float] | None = None) -> float:
        return math.prod((self.real if of is None else of).get(n, 1.0) for n in names)

    def forecast(self, names: Names) -> Forecast:
        speedup = self.speed(names, self.predicted or self.real)
        effect = "helps" if speedup > 1.01 else "hurts" if speedup < 0.99 else "little"
        return Forecast(names, effect, NOTHING, speedup, speedup * 0.95, speedup * 1.05)

    def contest(self, against: Names, names: Names) -> Trial:
        if self.interrupt_at == len(self.asked):
            raise Stopped(Trial(names, (), against, "skipped", why=Text("Stopped.")))
        self.asked.append((against, names))
        seconds = self.trial_s * (6 if self.slow & set(names) else 1)
        self.now_s += seconds
        bad = [self.broken[n] for n in names if n in self.broken]
        gain = self.speed(names) / self.speed(against)
        if bad and bad[0] != "parity":
            return Trial(names, (), against, bad[0], seconds=seconds)  # type: ignore[arg-type]
        outcome = "kept" if gain > 1.01 else "slower" if gain < 0.99 else "even"
        parity = Parity("differs" if bad else "agrees", "exact")
        return Trial(
            names,
            (),
            against,
            "parity" if bad else outcome,
            speedup=gain,
            low=gain * 0.995,
            high=gain * 1.005,
            parity=parity,
            seconds=seconds,
        )  # type: ignore[arg-type]

    def conflict(self, one: str, other: str) -> bool:
        return frozenset((one, other)) in self.conflicts

    def compiles(self, name: str) -> bool:
        return name in self.slow


def _search(
    world: World,
    path: Names,
    budget_s: float = 1e6,
    *,
    alone: bool = False,
    tell: Callable[[Trial], None] = lambda trial: None,
    patched: bool = False,
) -> Search:
    names = world.predicted or world.real
    singles = sorted((world.forecast((n,)) for n in names), key=lambda f: -(f.speedup or 0))
    wanted = Wanted(path, tuple(singles), alone=alone)
    budget = Budget(budget_s, 1.0, lambda: world.now_s)
    return Search(world.contest, world.forecast, wanted, world, budget, tell, patched=patched)


@pytest.mark.parametrize(("patched", "trials"), [(False, 4), (True, 3)])
def test_time_is_left_for_running_the_patch(patched: bool, trials: int) -> None:
    world = World({"a": 2.0, "b": 1.5, "c": 1.2})
    search = _search(world, ("a", "b", "c"), budget_s=45.0, patched=patched)
    search.run()
    assert search.best == ("a", "b", "c")
    assert search.closing_s() == (world.trial_s if patched else 0.0)
    assert len(world.asked) == trials
    assert world.now_s + search.closing_s() <= 45.0


def test_what_is_right_at_once_takes_one_jump_and_its_steps() -> None:
    world = World({"a": 2.0, "b": 1.5, "c": 1.2})
    search = _search(world, ("a", "b", "c"))
    search.run()
    assert search.best == ("a", "b", "c")
    assert [t.purpose for t in search.trials] == ["jump", "step", "step", "step"]
    assert search.trials[0].expected == pytest.approx(3.6)
    assert [t.expected for t in search.trials[1:]] == pytest.approx([2.0, 1.5, 1.2])
    assert search.in_pairs()
    assert search.gain() == pytest.approx((3.6 * 0.995, 3.6, 3.6 * 1.005))


@pytest.mark.parametrize("outcome", ["crashed", "hung", "memory", "impossible", "parity"])
@pytest.mark.parametrize("culprit", ["a", "b", "c", "d", "e"])
def test_a_culprit_is_found_and_the_rest_is_kept(outcome: str, culprit: str) -> None:
    names = ("a", "b", "c", "d", "e")
    world = World(dict.fromkeys(names, 1.3), broken={culprit: outcome})
    search = _search(world, names)
    search.run()
    assert set(search.best) == set(names) - {culprit}
    alone = [t for t in search.trials if t.added == (culprit,)]
    assert [t.outcome for t in alone] == [outcome]
    hunting = [t for t in search.trials if t.purpose in ("jump", "part")]
    assert len(hunting) <= 1 + 2 * math.ceil(math.log2(len(names)))
    assert search.in_pairs()


def test_what_won_is_the_best_as_soon_as_it_is_told() -> None:
    """What is written down after a trial holds it: a process may be killed before the next."""
    known: list[Names] = []
    search = _search(
        World({"a": 2.0, "b": 1.5}, broken={"b": "crashed"}),
        ("a", "b"),
        tell=lambda trial: known.append(search.best),
    )
    search.run()
    assert known[:2] == [(), ("a",)]


def test_what_the_prediction_got_wrong_is_left_out() -> None:
    """The jump wins all the same; the step shows the loss, and without it the best is faster."""
    world = World({"a": 3.0, "b": 0.8, "c": 1.0}, {"a": 2.0, "b": 1.5, "c": 1.1})
    search = _search(world, ("a", "b", "c"))
    search.run()
    assert search.best == ("a",)
    without = [t for t in search.trials if t.purpose == "without"]
    assert [t.outcome for t in without] == ["kept", "even"]
    assert search.gain() == pytest.approx((3.0 * 0.995, 3.0, 3.0 * 1.005))


def test_what_was_excluded_by_a_culprit_gets_its_chance() -> None:
    """The predicted compile mode crashes; the other mode, which it excludes, is tried."""
    world = World(
        {"a": 2.0, "graphs": 1.8, "default": 1.5},
        broken={"graphs": "crashed"},
        conflicts=(frozenset(("graphs", "default")),),
        slow=frozenset(("graphs", "default")),
    )
    search = _search(world, ("a", "graphs"))
    search.run()
    assert search.best == ("a", "default")
    assert next(t.purpose for t in search.trials if t.names == ("a", "default")) == "more"


def test_what_little_is_expected_of_is_tried_and_kept_if_it_wins() -> None:
    world = World({"a": 2.0, "b": 1.4, "c": 0.5}, {"a": 2.0, "b": 1.0, "c": 0.5})
    search = _search(world, ("a",))
    search.run()
    assert set(search.best) == {"a", "b"}
    harmful = [t for t in search.trials if t.names == ("c",)]
    assert [(t.outcome, t.expected) for t in harmful] == [("skipped", 0.5)]


def test_what_compiles_comes_last_in_the_steps() -> None:
    world = World({"a": 1.5, "b": 1.5, "c": 1.5}, slow=frozenset("a"))
    search = _search(world, ("a", "b", "c"))
    search.run()
    steps = [t.added for t in search.trials if t.purpose == "step"]
    assert steps == [("b",), ("c",), ("a",)]


def test_a_small_budget_still_makes_the_jump_and_says_what_was_left() -> None:
    world = World({"a": 2.0, "b": 1.5}, trial_s=50)
    search = _search(world, ("a", "b"), budget_s=60)
    search.run()
    assert search.best == ("a", "b")
    assert search.in_pairs()
    ran = [t for t in search.trials if t.outcome != "skipped"]
    assert [t.purpose for t in ran] == ["jump"]
    assert all(t.why == "The budget was over." for t in search.trials if t not in ran)


@pytest.mark.parametrize(("budget_s", "first"), [(190.0, ("a", "c")), (220.0, ("a", "c", "b"))])
def test_with_little_time_what_needs_no_compiler_comes_first(budget_s: float, first: Names) -> None:
    """A compiled trial is expected to take 67 s: with less than three times as much, it waits."""
    world = World({"a": 2.0, "b": 1.5, "c": 1.2}, slow=frozenset("b"))
    search = _search(world, ("a", "c", "b"), budget_s=budget_s)
    search.run()
    assert world.asked[0] == ((), first)
    assert set(search.best) == {"a", "b", "c"}
    gain = search.gain()
    assert gain is not None
    assert gain[1] == pytest.approx(3.6)


def test_what_gains_nothing_without_the_compiler_takes_no_time_first() -> None:
    world = World({"a": 1.05, "b": 1.5}, slow=frozenset("b"))
    _search(world, ("a", "b"), budget_s=100).run()
    assert world.asked[0] == ((), ("a", "b"))


def test_what_promises_most_for_its_time_is_tried_first() -> None:
    """All at once crashes. Of its halves the one that gains most a second comes first, though it
    is not the first of the path."""
    world = World(
        {"graphs": 1.2, "b": 1.1, "c": 1.1, "bf16": 2.5},
        broken={"graphs": "crashed"},
        slow=frozenset(("graphs",)),
    )
    search = _search(world, ("graphs", "b", "c", "bf16"))
    search.run()
    assert [names for _, names in world.asked[:2]] == [("graphs", "b", "c", "bf16"), ("c", "bf16")]
    assert set(search.best) == {"b", "c", "bf16"}


def test_without_time_for_what_compiles_the_rest_of_it_is_tried() -> None:
    """Nothing can be predicted, and one change crashes whatever it is tried with: the others are
    found before the time is over."""
    world = World(
        {"bf16": 2.5, "compile": 1.4, "x": 1.3, "y": 1.2},
        broken={"y": "crashed"},
        slow=frozenset(("compile",)),
    )
    path = ("bf16", "compile", "x", "y")
    wanted = Wanted(path, tuple(Forecast((n,), "little", NOTHING) for n in path), others=0)
    budget = Budget(90, 1.0, lambda: world.now_s)
    search = Search(world.contest, lambda names: None, wanted, world, budget)
    search.run()
    assert {"bf16", "x"} <= set(search.best)


def test_a_script_that_is_too_short_for_one_set_is_no_culprit_s_fault() -> None:
    """Halves of it would be too short as well: no time is spent on finding a culprit."""
    world = World({"a": 2.0, "b": 1.5, "c": 1.2}, broken=dict.fromkeys("abc", "short"))
    search = _search(world, ("a", "b", "c"))
    search.run()
    assert [names for _, names in world.asked if len(names) > 1] == [("a", "b", "c")]
    assert search.best == ()


@pytest.mark.parametrize("known", [True, False])
def test_a_forecast_stands_also_where_there_was_no_time(known: bool) -> None:
    """Whether a set is quick to predict or not: what it promises is told."""
    world = World(
        {"bf16": 2.5, "compile": 1.4}, broken={"compile": "crashed"}, slow=frozenset(("compile",))
    )
    search = _search(world, ("compile", "bf16"), budget_s=5)
    search._cheap = lambda names: known
    search.run()
    untried = [t for t in search.trials if t.outcome == "skipped"]
    assert untried
    assert all(t.expected is not None for t in untried)
    said = [t for t in untried if "by itself" in t.why]
    assert bool(said) != known
    assert all(t.expected == pytest.approx(world.speed(t.added)) for t in said)


def test_a_slow_compiler_loses_its_own_trial_only() -> None:
    """The user stops it: what was found before is kept, and what was under way is told."""
    world = World({"a": 2.0, "b": 1.5}, slow=frozenset("b"), interrupt_at=1)
    search = _search(world, ("a", "b"), budget_s=100)
    with pytest.raises(KeyboardInterrupt):
        search.run()
    assert search.best == ("a",)
    assert [(t.names, t.outcome) for t in search.trials] == [
        (("a",), "kept"),
        (("a", "b"), "skipped"),
    ]
    assert search.trials[-1].why == "Stopped."


def test_no_budget_no_trial() -> None:
    world = World({"a": 2.0})
    search = _search(world, ("a",), budget_s=0)
    search.run()
    assert search.best == ()
    assert search.gain() is None
    assert [t.outcome for t in search.trials] == ["skipped"]


def test_nothing_to_gain_changes_nothing() -> None:
    world = World({"a": 0.9, "b": 0.7})
    search = _search(world, ())
    search.run()
    assert search.best == ()
    assert {t.outcome for t in search.trials} == {"skipped"}


def test_each_alone_for_the_evidence() -> None:
    world = World({"a": 2.0, "b": 1.5, "c": 0.8})
    search = _search(world, ("a", "b"), alone=True)
    search.run()
    alone = {t.names[0]: t.speedup for t in search.trials if not t.against and len(t.names) == 1}
    assert alone == pytest.approx({"a": 2.0, "b": 1.5, "c": 0.8})
    assert search.best == ("a", "b")


def test_an_interruption_leaves_what_was_found() -> None:
    world = World({"a": 2.0, "b": 1.5}, interrupt_at=1)
    told: list[Trial] = []
    search = _search(world, ("a", "b"), tell=told.append)
    with pytest.raises(KeyboardInterrupt):
        search.run()
    assert search.best == ("a", "b")
    assert told == search.trials[:-1]
    assert search.gain() is not None


FACTORS = st.sampled_from([0.5, 0.9, 1.0, 1.2, 2.0, 4.0])
CHANGES = st.dictionaries(st.sampled_from("abcdefg"), FACTORS, min_size=1)


@settings(max_examples=150, deadline=None)
@given(
    real=CHANGES,
    predicted=CHANGES,
    broken=st.sets(st.sampled_from("abcdefg"), max_size=3),
    pairs=st.sets(st.frozensets(st.sampled_from("abcdefg"), min_size=2, max_size=2), max_size=3),
    budget_s=st.integers(0, 400),
)
def test_in_any_world(
    real: dict[str, float],
    predicted: dict[str, float],
    broken: set[str],
    pairs: set[frozenset[str]],
    budget_s: int,
) -> None:
    """Nothing broken is kept, nothing conflicting; the best is never slower than the original."""
    predicted = {n: predicted.get(n, 1.0) for n in real}
    world = World(real, predicted, dict.fromkeys(broken, "parity"), tuple(pairs))
    path: Names = ()
    for name in sorted(predicted, key=lambda n: -predicted[n]):
        if predicted[name] > 1 and not any(world.conflict(name, n) for n in path):
            path = (*path, name)
    search = _search(world, path, budget_s)
    search.run()
    assert not broken & set(search.best)
    assert not any(world.conflict(a, b) for a in search.best for b in search.best)
    assert world.speed(search.best) >= 0.97
    assert len(world.asked) == len(set(world.asked)), "no pair is run twice"
    assert world.now_s <= budget_s + world.trial_s, "at most the last trial goes beyond the budget"
    gain = search.gain()
    if search.best and gain is not None:
        assert gain[0] <= world.speed(search.best) * 1.001
        assert gain[2] >= world.speed(search.best) * 0.999
    if budget_s >= 400 and all(real[n] == predicted[n] for n in real) and not broken:
        assert world.speed(search.best) >= world.speed(path) * 0.97
