"""Steps that the host paces, by what was benched beside them: `host_steps_table.py [--kept]`.

Needs no GPU: fits the host's constants to the bench of `host_steps.py` (each rank's own, measured in
the same processes), captures the steps of `workloads/host_paced.py`, predicts them on two H200s,
and writes `validation/results/host_steps.json` and a table of `docs/distributed-accuracy.md`.
No step is fitted to. `--kept` only writes the tables.
"""

from __future__ import annotations

import gzip
import json
import statistics
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "src"), str(HERE.parent), str(HERE), str(HERE / "workloads")]

from pages import splice  # noqa: E402

RECORDED = ROOT / "validation" / "recordings" / "h200" / "host_steps"
RESULTS = ROOT / "validation" / "results" / "host_steps.json"
HEADS = {
    "distributed-accuracy.md": "| step | measured, ms | catalogue's host | error | 80 % interval, ms"
    " | own bench | error | 80 % interval, ms | without the price of `torch.distributed` |",
    "distributed-accuracy.zh-CN.md": "| 步 | 实测，ms | 目录中的主机 | 误差 | 80 % 区间，ms"
    " | 自己的基准 | 误差 | 80 % 区间，ms | 不计 `torch.distributed` 的价格 |",
}

Line = dict[str, Any]


def lines_of(name: str) -> list[Line]:
    """Lines of a recording."""
    text = (RECORDED / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def measured() -> dict[str, float]:
    """Seconds of each step, the slower rank's: the middle of its rounds."""
    rounds: dict[str, list[float]] = {}
    for line in lines_of("steps.jsonl"):
        if line["round"] != "alone":
            slowest = max(statistics.median(rank["blocks_s"]) for rank in line["ranks"])
            rounds.setdefault(line["step"], []).append(slowest)
    return {name: statistics.median(times) for name, times in rounds.items()}


def own_host(rank: int) -> Any:
    """Constants by the bench of one rank's process."""
    from gpuscope.hardware import device
    from gpuscope.measurement.bench.store import point_from
    from gpuscope.measurement.calibrate import calibrate

    with gzip.open(RECORDED / f"bench-rank{rank}.jsonl.gz", "rt", encoding="utf-8") as file:
        points = [point_from(json.loads(line)) for line in file]
    return calibrate(points, device("h200"))


def _without_price(own: Any) -> Any:
    """The same, torch.distributed's Python at the price of any other."""
    from dataclasses import replace

    from gpuscope.measurement.calibrate.host_distributed import CONSTANT

    entries = dict(own.entries)
    entries[CONSTANT] = entries["host.python_instruction_s"]
    return replace(own, entries=tuple(sorted(entries.items())))


def predicted() -> dict[str, Line]:
    """Each step by the catalogue's host, by the slower of both ranks' own, and without the price."""
    from host_paced import STEPS

    import gpuscope
    from gpuscope.program.ranks import capture_ranks
    from gpuscope.program.world import World

    owns = [own_host(rank) for rank in (0, 1)]
    found: dict[str, Line] = {}
    for name, build in STEPS.items():
        programs = capture_ranks(build, World(2, 0, 2), name=name)

        def said(constants: Any = None, programs: Any = programs) -> Line:
            step = gpuscope.recost(programs, "2xh200", calibration=constants, memory=False)
            return {"step_s": step.step_time_s, "low_s": step.low_s, "high_s": step.high_s}

        found[name] = {
            "catalogue": said(),
            "own": max((said(own) for own in owns), key=lambda line: line["step_s"]),
            "without": max((said(_without_price(own)) for own in owns), key=lambda x: x["step_s"]),
        }
        print(name, found[name], flush=True)
    return found


def table(found: dict[str, Line], truth: dict[str, float]) -> list[str]:
    """A row a step."""
    rows = []
    for name, said in found.items():
        cells = [f"`{name}`", f"{1e3 * truth[name]:.1f}"]
        for by in ("catalogue", "own"):
            line = said[by]
            held = "" if line["low_s"] <= truth[name] <= line["high_s"] else " ✗"
            cells += [f"{1e3 * line['step_s']:.1f}", f"{line['step_s'] / truth[name] - 1:+.0%}"]
            cells += [f"{1e3 * line['low_s']:.0f} – {1e3 * line['high_s']:.0f}{held}"]
        cells.append(f"{said['without']['step_s'] / truth[name] - 1:+.0%}")
        rows.append(f"| {' | '.join(cells)} |".replace("%", " %").replace("-", "−"))
    return rows


def main() -> None:
    """Predict, keep, write the pages."""
    if "--kept" not in sys.argv[1:]:
        RESULTS.write_text(json.dumps(predicted(), indent=1) + "\n", encoding="utf-8")
    rows = table(json.loads(RESULTS.read_text(encoding="utf-8")), measured())
    for page, head in HEADS.items():
        text = "\n".join((head, "|---|---:|---:|---:|---:|---:|---:|---:|---:|", *rows))
        splice(ROOT / "docs" / page, "host-steps", text)


if __name__ == "__main__":
    main()
