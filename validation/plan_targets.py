"""The targets of `plan`, each with what was reached, from files of this repository.

    python validation/plan_targets.py     # the table, as docs/plan-accuracy.md has it

Reads what `serving_choice.py`, `plan_runs.py`, `tuning_memory.py`, `packing_steps.py`,
`plan_today.py`, `plan_composed.py`, `plan_speed.py` and `plan_choice.py` kept.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]

import packing_page  # noqa: E402
import plan_composed  # noqa: E402
import plan_runs_page  # noqa: E402
import plan_speed  # noqa: E402
import tuning_memory_page  # noqa: E402
from plan_targets_text import TEXT  # noqa: E402

if TYPE_CHECKING:
    from plan_choice import Answer

RESULTS = HERE / "results"
MUCH = 0.1
"""A group whose choice loses more is told apart."""


@dataclass(frozen=True, slots=True)
class Target:
    """One row.

    Attributes:
        name: of its words.
        wanted, reached: for a reader.
        met: whether it is.
        values: what its words ask for.
    """

    name: str
    wanted: str
    reached: str
    met: bool
    values: dict[str, Any]


def targets(lang: str, trainings: Sequence[Answer]) -> list[Target]:
    """All of them, in the order of the page."""
    return [
        *_serving(),
        *_trainings(trainings),
        *_own(),
        *_tuning(),
        *_speed(TEXT[lang]["never"]),
        *_composed(),
        _interval(TEXT[lang]["parts"]),
        _interval(TEXT[lang]["parts"], anew=True),
    ]


def targets_section(lang: str, trainings: Sequence[Answer]) -> str:
    """The section, as Markdown."""
    words = TEXT[lang]
    lines = [words["title"], "", words["intro"], "", words["head"], "|---|---:|---:|---|---|"]
    for each in targets(lang, trainings):
        what, why = words["rows"][each.name]
        cells = (
            what.format(**each.values),
            each.wanted,
            each.reached,
            words["met" if each.met else "missed"],
            "" if each.met else why.format(**each.values),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _below(name: str, value: float, most: float, shown: str, **values: Any) -> Target:
    """What must not be more."""
    return Target(name, f"≤ {_told(most, shown)}", _told(value, shown), value <= most, values)


def _above(name: str, value: float, least: float, shown: str, **values: Any) -> Target:
    """What must not be less."""
    return Target(name, f"≥ {_told(least, shown)}", _told(value, shown), value >= least, values)


def _told(value: float, shown: str) -> str:
    return format(value, shown).replace("%", " %")


def _serving() -> list[Target]:
    found = json.loads((RESULTS / "serving_choice.json").read_text("utf-8"))["answered in full"]
    ours, near = found["expected share"], found["nearest row"]
    return [
        _below("serving broken", ours["broken"], 0.08, ".1%"),
        _below("serving mean", ours["regret_mean"], 0.12, ".1%"),
        _below("serving median", ours["regret_median"], 0.0, ".1%"),
        _below("serving nearest", ours["regret_mean"], near["regret_mean"], ".1%"),
    ]


def _trainings(made: Sequence[Answer]) -> list[Target]:
    lost = sorted(each.regret for each in made)
    held = sum(each.plans[0] in each.ties for each in made) / len(made)
    few = [each for each in lost if each <= MUCH]
    count, without = len(lost) - len(few), 100 * statistics.fmean(few or [0.0])
    tau = statistics.fmean(each.tau for each in made)
    return [
        replace(_above("training tau", tau, 0.7, ".2f"), values={"count": count}),
        _below("training regret", statistics.fmean(lost), 0.05, ".1%", without=without),
        _above("training ties", held, 0.8, ".0%"),
    ]


def _own() -> list[Target]:
    found = plan_runs_page.runs()
    ran = [line for line in found if line["outcome"] == "ran"]
    full = [line for line in found if line["outcome"] == "out of memory"]
    lost = [regret for _, _, regret in plan_runs_page.regrets(ran).values()]
    count, right, false = plan_runs_page.fits(ran, full)
    peaks = [abs(line["said"]["peak_bytes"] / line["peak_bytes"] - 1) for line in ran]
    return [
        _below("own regret", statistics.fmean(lost), 0.03, ".1%"),
        _above("own fits", right / count, 0.98, ".0%"),
        _below("own false", false, 0, "d"),
        _below("own peak", statistics.fmean(peaks), 0.015, ".2%"),
    ]


def _tuning() -> list[Target]:
    ran = [line for line in tuning_memory_page.cases() if line["outcome"] == "ran"]
    off = [abs(error) for error in tuning_memory_page.off(ran)]
    same = 100 * max(abs(error) for error in tuning_memory_page.off(ran, "same"))
    return [
        _below("tuning mean", statistics.fmean(off), 0.03, ".2%"),
        _below("tuning worst", max(off), 0.06, ".2%", same=same),
    ]


def _speed(never: str) -> list[Target]:
    found = plan_speed.kept()
    large = found["405B"]["cold"]
    took = _seconds("405B", large, 30.0)
    if not large["ended"]:
        took = replace(took, reached=never.format(used=large["processor_s"]), met=False)
    return [
        _above("scored", found["scored"]["per_s"], 100_000, ",.0f"),
        _seconds("8B", found["8B"]["cold"], 8.0),
        took,
        _seconds("serve cold", found["serve"]["cold"], 10.0),
        _seconds("serve kept", found["serve"]["kept"], 3.0),
    ]


def _seconds(name: str, took: dict[str, Any], most: float) -> Target:
    """By the processor's time: the clock's depends on who else waits for it."""
    used = took["processor_s"]
    return Target(name, f"≤ {most:.0f} s", f"{used:.1f} s", used <= most, {})


def _composed() -> list[Target]:
    found = plan_composed.kept()
    pairs = [
        abs(each["composed_s"] / each["simulated_s"] - 1)
        for rows in found.values()
        for each in rows
    ]
    worst = min(found.values(), key=lambda rows: plan_composed.figures(rows)[2])
    tau = plan_composed.figures(worst)[2]
    times = [(each["composed_s"], each["simulated_s"]) for each in worst]
    every = list(combinations(times, 2))
    wrong = [abs(a[1] / b[1] - 1) for a, b in every if (a[0] - b[0]) * (a[1] - b[1]) <= 0]
    apart = 100 * max(wrong, default=0.0)
    return [
        _below("composed median", statistics.median(pairs), 0.03, ".1%", plans=len(pairs)),
        _above("composed tau", tau, 0.9, ".2f", wrong=len(wrong), of=len(every), apart=apart),
    ]


def _interval(parts: str, *, anew: bool = False) -> Target:
    """Over all steps that were measured after they were predicted, on GPUs of ours; or anew."""
    own = [line for line in plan_runs_page.runs() if line["outcome"] == "ran"]
    held = {
        "own": [plan_runs_page.inside(line, "today" if anew else "said") for line in own],
        "tuning": tuning_memory_page.inside("today" if anew else "same"),
        "packed": packing_page.inside(anew),
    }
    every = [each for some in held.values() for each in some]
    share = sum(every) / len(every)
    told = parts.format(**{name: f"{sum(some)}/{len(some)}" for name, some in held.items()})
    name, met = "interval today" if anew else "interval", 0.75 <= share <= 0.9
    return Target(name, "75–90 %", _told(share, ".0%"), met, {"parts": told})


def main() -> None:
    """Print the table."""
    from plan_choice import RESULTS as PUBLISHED
    from plan_choice import answers, runs
    from published.rows import read_rows

    found = runs(read_rows(), json.loads(PUBLISHED.read_text("utf-8")))
    print(targets_section("en", answers(found, lambda run: run.question)))


if __name__ == "__main__":
    main()
