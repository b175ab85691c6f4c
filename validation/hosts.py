"""Programs at the host's pace, machine by machine, as the catalogue predicts them: `hosts.py`.

    python validation/hosts.py            # from the results; writes a table of docs/accuracy.md

Nobody benched these hosts for the prediction: all is said with the catalogue's constants, whose
`host.scale` stands for a host that was not measured. One machine at a time is held out: what its
programs would have been said to take by the middle of the other machines' alone, each machine
counting alike, and how many lie below the other machines' upper tenth and above the catalogue's
lower end. Run after `unseen.py judge`, `table.py`, `corpus.beside`, `plan_today.py` and
`distributed/host_steps_table.py`.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE), str(HERE / "workloads")]

from pages import splice  # noqa: E402
from predictions import HOST_BOUND  # noqa: E402

RESULTS = HERE / "results"
PAGES = {
    "accuracy.md": "| machine | programs | measured over predicted, middle | mean error | mean error"
    " by the other machines' middle | in the other machines' interval | in the 80 % interval |",
    "accuracy.zh-CN.md": "| 机器 | 程序数 | 实测与预测之比（中位） | 平均误差 | 按其余机器中位的平均误差"
    " | 落在其余机器的区间 | 落在 80 % 区间 |",
}


class Step(NamedTuple):
    """Seconds of a step: measured, predicted with the catalogue's constants, its interval."""

    measured_s: float
    said_s: float
    low_s: float
    high_s: float

    @property
    def ratio(self) -> float:
        return self.measured_s / self.said_s


def machines() -> dict[str, list[Step]]:
    """Steps of which kernels fill less than 80 %, by the machine that ran them."""
    rows = _read("h200.json")["rows"]
    zoo = {r["name"]: r for r in rows}
    paced = [r for r in rows if r["host_bound"]]
    found = {
        "first H200": [_of_zoo(r) for r in paced if r["host"] == "first"],
        "second H200": [
            _of_zoo(zoo[r["name"]], r["measured"]["step_time_s"])
            for r in _read("h200-second-host.json")["rows"]
            if _paced(r["measured"]["device_busy_s"], r["measured"]["step_time_s"])
        ],
        "third H200": [_of_zoo(r) for r in paced if r["host"] != "first"],
    }
    for row in _read("unseen.json"):
        real, today = row["measured"], row["today"]
        if _paced(real["device_s"], real["step_s"]):
            step = Step(real["step_s"], today["step_s"], today["low_s"], today["high_s"])
            kinds = "unseen kinds" if row["set"] == "first" else f"{row['set']} unseen set"
            found.setdefault(f"{row['on'].upper()}, {kinds}", []).append(step)
    for row in _read("corpus-h200-after.json"):
        real, said = row["measured"], row["predicted"]
        if _paced(real["busy_s"], real["step_s"]) and said["predicted"]:
            step = Step(real["step_s"], said["step_s"], *said["interval_s"])
            found.setdefault("H200, corpus", []).append(step)
    found["two H200s, plans"] = _plans()
    found["two H200s, steps beside their bench"] = _beside_bench()
    return found


WIDE = 1.3
"""Upper end over the middle of an interval, above which the host sets a plan's pace: its device
time was not measured."""


def _plans() -> list[Step]:
    import plan_today

    today = plan_today.today()["own"]
    lines = (RESULTS / "plan_runs_h200.jsonl").read_text("utf-8").splitlines()
    ran = [line for line in map(json.loads, lines) if line["outcome"] == "ran"]
    steps = [
        Step(line["step_s"], said["step_s"], said["low_s"], said["high_s"])
        for line in ran
        for said in (today[plan_today.key_of(line)],)
    ]
    return [step for step in steps if step.high_s > WIDE * step.said_s]


def _beside_bench() -> list[Step]:
    sys.path[:0] = [str(HERE / "distributed")]
    from host_steps_table import measured

    truth = measured()
    return [
        Step(truth[name], said["step_s"], said["low_s"], said["high_s"])
        for name, found in _read("host_steps.json").items()
        for said in (found["catalogue"],)
    ]


def _paced(device_s: float, step_s: float) -> bool:
    """Whether the host set the pace."""
    return device_s < HOST_BOUND * step_s


def _read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text("utf-8"))


def _of_zoo(row: dict[str, Any], measured_s: float | None = None) -> Step:
    said = row["shipped"]
    return Step(measured_s or said["measured"], said["predicted"], said["low"], said["high"])


def middle(of: list[list[Step]], share: float = 0.5) -> float:
    """Median, or another quantile, of measured over predicted; each machine counts alike."""
    weighted = sorted((s.ratio, 1 / len(steps) / len(of)) for steps in of for s in steps)
    passed = 0.0
    for ratio, weight in weighted:
        passed += weight
        if passed >= share:
            return ratio
    raise ValueError("no steps")


def lower_end() -> float:
    """The catalogue's, as a share of what it says."""
    from gpuscope.hardware import calibration_for, device

    scale = calibration_for(device("h200")).entry("host.scale")
    return scale.low / scale.value


def table(found: dict[str, list[Step]]) -> list[str]:
    """A row a machine, and all together."""
    lines, errors, left, held, hits = [], [], [], [], []
    low = lower_end()
    for name, steps in found.items():
        rest = [s for other, s in found.items() if other != name]
        by_others, high = middle(rest), middle(rest, 0.9)
        own = [abs(1 / s.ratio - 1) for s in steps]
        others = [abs(by_others / s.ratio - 1) for s in steps]
        inside = [s.low_s <= s.measured_s <= s.high_s for s in steps]
        between = [low <= s.ratio <= high for s in steps]
        lines.append(_line(name, steps, own, others, between, inside))
        errors += own
        left += others
        held += between
        hits += inside
    every = [s for v in found.values() for s in v]
    return [*lines, _line("all", every, errors, left, held, hits)]


def _line(
    name: str,
    steps: list[Step],
    own: list[float],
    others: list[float],
    between: list[bool],
    inside: list[bool],
) -> str:
    return (
        f"| {name} | {len(steps)} | {statistics.median(s.ratio for s in steps):.2f} | "
        f"{statistics.mean(own):.0%} | {statistics.mean(others):.0%} | "
        f"{sum(between)} of {len(between)} | {sum(inside)} of {len(inside)} |"
    )


def main() -> None:
    lines = table(machines())
    print("\n".join(lines))
    for page, head in PAGES.items():
        text = "\n".join((head, "|---|---:|---:|---:|---:|---:|---:|", *lines))
        splice(HERE.parent / "docs" / page, "machines", text, False)


if __name__ == "__main__":
    main()
