"""What `plan` would have chosen among published runs: `python validation/plan_choice.py`.

Groups runs of one model on as many of the same devices, with the same sequence, by one publisher.
Runs with the same plan, precision and batch are one candidate: the median of what was measured
with several releases. Each group is a question: the planner's rule (least predicted time, of the
ties the simplest) chooses from the predictions alone, and its choice is held against the quickest
measured. Reads `validation/results/published.json`; writes docs/plan-accuracy.md and its Chinese
twin. Nothing is tuned on it. `--check` writes nothing and fails where a page differs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]

from plan_choice_text import TEXT  # noqa: E402
from plan_runs_page import section  # noqa: E402
from packing_page import packing_section  # noqa: E402
from plan_targets import targets_section  # noqa: E402
from tuning_memory_page import section as tuning_section  # noqa: E402
from tuning_scripts_page import section as scripts_section  # noqa: E402
from published.express import Expressed, express  # noqa: E402
from published.rows import Row, read_rows  # noqa: E402

from gpuscope.errors import GpuscopeError  # noqa: E402
from gpuscope.planning.choice import indistinct  # noqa: E402
from gpuscope.planning.score import score  # noqa: E402
from gpuscope.planning.types import Candidate, Question  # noqa: E402
from gpuscope.program.models.parallel.checks import plan_of  # noqa: E402
from gpuscope.program.models.parallel.size import TransformerSize  # noqa: E402

RESULTS = HERE / "results" / "published.json"
SERVED = HERE / "results" / "serving_choice.json"
REPEATS = HERE / "results" / "serving_repeats.json"
DOCS = HERE.parent / "docs"

LEAST_ROWS = 3
"""Runs of a group at least; fewer are no choice."""


@dataclass(frozen=True, slots=True)
class Run:
    """A published run that was predicted; seconds a token of the whole job.

    Attributes:
        question: what a group shares: source, model, hardware, devices, sequence.
        batch: tokens of a step.
        precision: as printed.
        plan: how it was split, and whether it was compiled.
        words: the same for a reader.
        dimensions: kinds of parallelism and the like: fewer are simpler.
        measured, predicted: seconds a token.
        half: half of the predicted interval, as a share.
    """

    question: tuple[object, ...]
    batch: int
    precision: str
    plan: tuple[object, ...]
    words: str
    dimensions: int
    measured: float
    predicted: float
    half: float


@dataclass(frozen=True, slots=True)
class Answer:
    """A group and what was chosen.

    Attributes:
        question: what its runs share.
        rows: how many runs.
        plans: its different candidates, the quickest measured first.
        chosen: the planner's.
        ties: candidates that the planner cannot tell from the best, it included.
    """

    question: tuple[object, ...]
    rows: int
    plans: tuple[Run, ...]
    chosen: Run
    ties: tuple[Run, ...]

    @property
    def regret(self) -> float:
        """How much longer the choice took than the quickest."""
        return self.chosen.measured / self.plans[0].measured - 1

    @property
    def at_random(self) -> float:
        """The same of a candidate taken blindly, on the mean."""
        return statistics.fmean(p.measured / self.plans[0].measured - 1 for p in self.plans)

    @property
    def tau(self) -> float:
        """Kendall's rank correlation of predicted and measured; equal ones count as neither."""
        pairs = [(a, b) for n, a in enumerate(self.plans) for b in self.plans[n + 1 :]]
        signs = [
            _sign(a.predicted - b.predicted) * _sign(a.measured - b.measured) for a, b in pairs
        ]
        return sum(signs) / len(pairs)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def runs(rows: Iterable[Row], entries: Mapping[str, Mapping[str, Any]]) -> list[Run]:
    """Published trainings that were predicted and have tokens."""
    found = []
    for row in rows:
        entry, made = entries.get(row.id, {}), express(row)
        if row.kind == "inference" or not entry.get("predicted_s") or not entry.get("tokens"):
            continue
        if not isinstance(made, Expressed) or made.options.parallel is None:
            continue
        found.append(_run(row, made, entry))
    return found


def _run(row: Row, made: Expressed, entry: Mapping[str, Any]) -> Run:
    asked = made.options.parallel
    assert asked is not None
    names = ("tp", "pp", "cp", "ep")
    degrees = {name: getattr(asked, name) or 1 for name in names}
    compiled = bool(asked.software.compile)
    parts = [f"{name} {degree}" for name, degree in degrees.items() if degree > 1]
    parts += [f"virtual {asked.virtual}"] if asked.virtual else []
    parts += [f"micro-batch {asked.microbatch}"]
    parts += [f"recompute {asked.recompute}"] if asked.recompute != "none" else []
    parts += ["compiled"] if compiled else []
    split = (*degrees.values(), asked.virtual, asked.microbatch, asked.fsdp, asked.recompute)
    tokens, predicted_s = entry["tokens"], entry["predicted_s"]
    return Run(
        question=(row.source, row.model, row.hardware, entry["devices"], row.seq),
        batch=tokens,
        precision=row.precision or "",
        plan=(*split, compiled),
        words=", ".join(parts),
        dimensions=sum(degree > 1 for degree in degrees.values()) + (asked.recompute != "none"),
        measured=entry["measured_s"] / tokens,
        predicted=predicted_s / tokens,
        half=(entry["kernels_high_s"] - entry["kernels_low_s"]) / 2 / predicted_s,
    )


def answers(
    found: Sequence[Run], key: Callable[[Run], tuple[object, ...]], least: int = LEAST_ROWS
) -> list[Answer]:
    """What is chosen in each group of so many runs, with two different candidates at least."""
    groups: dict[tuple[object, ...], list[Run]] = {}
    for run in found:
        groups.setdefault(key(run), []).append(run)
    made = [(name, members, _plans(members)) for name, members in groups.items()]
    return [
        _answer(name, len(members), plans)
        for name, members, plans in made
        if len(members) >= least and len(plans) > 1
    ]


def _plans(members: Iterable[Run]) -> list[Run]:
    """Different candidates, releases of one taken together; the quickest first."""
    same: dict[tuple[object, ...], list[Run]] = {}
    for run in members:
        same.setdefault((run.plan, run.precision, run.batch), []).append(run)
    merged = [
        Run(
            question=each[0].question,
            batch=each[0].batch,
            precision=each[0].precision,
            plan=each[0].plan,
            words=each[0].words,
            dimensions=each[0].dimensions,
            measured=statistics.median(run.measured for run in each),
            predicted=statistics.median(run.predicted for run in each),
            half=statistics.median(run.half for run in each),
        )
        for each in same.values()
    ]
    return sorted(merged, key=lambda run: run.measured)


def _answer(name: tuple[object, ...], rows: int, plans: Sequence[Run]) -> Answer:
    least = min(plans, key=lambda run: run.predicted)
    ties = tuple(
        run
        for run in plans
        if indistinct(least.predicted, least.half, run.predicted, run.half, same_device=True)
    )
    chosen = min(ties, key=lambda run: (run.dimensions, run.predicted))
    return Answer(name, rows, tuple(plans), chosen, ties)


def memory(rows: Iterable[Row]) -> tuple[int, int, int]:
    """Runs that took place; of these, taken for too large by the bound, and by the estimate."""
    count = by_bound = by_estimate = 0
    for row in rows:
        made = express(row)
        if not isinstance(made, Expressed) or not isinstance(made.workload, TransformerSize):
            continue
        asked, seq, size = made.options.parallel, made.options.seq, made.workload
        assert asked is not None
        assert seq is not None
        cluster = made.machine.cluster(made.devices)
        try:
            plan = plan_of(size, seq, asked)
        except GpuscopeError:  # a batch that its replicas cannot share
            continue
        question = Question(
            model=row.model, size=size, clusters=(cluster,), global_batch=plan.global_batch, seq=seq
        )
        scored = score(question, [Candidate(cluster, plan)])
        usable = cluster.device.memory_usable_bytes
        count += 1
        by_bound += bool(scored.least_bytes[0] > usable)
        by_estimate += bool(scored.estimate_bytes[0] > usable)
    return count, by_bound, by_estimate


def page(lang: str, loose: Sequence[Answer], strict: Sequence[Answer], fits: Sequence[int]) -> str:
    """The page as Markdown.

    Args:
        lang: "en" or "zh".
        loose: groups as the target has them.
        strict: the same with equal precision and batch.
        fits: what `memory` gave.
    """
    words = TEXT[lang]
    parts = [words["title"], words["intro"], targets_section(lang, loose), words["result"]]
    table = [words["head"], "|---|---:|---:|---:|---:|---:|---:|"]
    for name, made in ((words["loose"], loose), (words["strict"], strict)):
        table.append(_summary(name, made))
    parts += ["\n".join(table), words["read"]]
    count, by_bound, by_estimate = fits
    told = words["memory"].format(count=count, bound=by_bound, estimate=by_estimate)
    parts += [told, words["worst"], _groups(words, loose), words["left"]]
    parts += section(lang)
    parts += [*tuning_section(lang), *scripts_section(lang), packing_section(lang)]
    parts += _served(words, json.loads(SERVED.read_text("utf-8")))
    return "\n\n".join(parts) + "\n"


def _served(words: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """The section of serving, of what `serving_choice.py` wrote."""
    some, everything = found["answered in full"], found["all"]["expected share"]
    near = found["all"]["nearest row"]
    floor = json.loads(REPEATS.read_text("utf-8"))["judge"]
    lines = [words["serving_head"], "|---|---:|---:|---:|---:|"]
    rules = [rule for rule in some if rule not in _NO_RULES]
    for name, rule in zip(words["serving_rules"], rules, strict=True):
        told = some[rule]
        cells = (_percent(told.get(key)) for key in ("broken", "regret_mean", "regret_median"))
        lines.append(f"| {name} | {told['questions']} | " + " | ".join(cells) + " |")
    intro = words["serving_intro"].format(
        rows=found["rows"], answered=found["answered"], error=_percent(found["tpot_median_error"])
    )
    read = words["serving_read"].format(
        groups=found["groups"] - some["groups"],
        broken=_percent(everything["broken"]),
        mean=_percent(everything["regret_mean"]),
        near_broken=_percent(near["broken"]),
        near_mean=_percent(near["regret_mean"]),
        known=_percent(some[_KNOWING]["regret_mean"]),
        floor_broken=_percent(floor["broken"]),
        floor_mean=_percent(floor["regret_mean"]),
        floor_groups=floor["groups"],
        **_lost(some["where"]),
    )
    return [words["serving"], intro, "\n".join(lines), read]


_KNOWING = "predicted tokens, feasible known"
_NO_RULES = ("groups", "where", _KNOWING)
"""Keys of what was answered in full that are no rows of the table."""


def _lost(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Where regret comes from, for the text; `serving_choice.where` counted it."""
    broken = sum(row["broken"] for row in rows)
    fp8 = [r for r in rows if r["precision"] == "fp8_block" and r["model"].startswith("qwen3-")]
    minimax = [row for row in rows if row["model"].startswith("minimax")]
    off = [-100 * each for row in (*fp8, *minimax) for each in row["broken_off"]]
    kept = sum(row["kept_regret"] for row in rows)
    careful = max(rows, key=lambda row: row["kept_regret"])
    return {
        "share": f"{broken / sum(row['lost'] for row in rows):.0%}".replace("%", " %"),
        "count": broken,
        "fp8": sum(row["broken"] for row in fp8),
        "minimax": sum(row["broken"] for row in minimax),
        "low": round(min(off)),
        "high": round(max(off)),
        "careful_share": f"{careful['kept_regret'] / kept:.0%}".replace("%", " %"),
        "careful": f"{careful['model']}, {careful['system']}",
        "questions": careful["kept"],
        "careful_mean": f"{careful['kept_regret'] / careful['kept']:.0%}".replace("%", " %"),
    }


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}".replace("%", " %")


def _summary(name: str, made: Sequence[Answer]) -> str:
    regrets = [each.regret for each in made]
    held = sum(each.plans[0] in each.ties for each in made)
    cells = (
        name,
        str(len(made)),
        f"{statistics.fmean(each.tau for each in made):.2f}",
        f"{statistics.fmean(regrets):.1%}".replace("%", " %"),
        f"{max(regrets):.1%}".replace("%", " %"),
        f"{statistics.fmean(each.at_random for each in made):.1%}".replace("%", " %"),
        f"{held}/{len(made)}",
    )
    return "| " + " | ".join(cells) + " |"


def _groups(words: Mapping[str, str], made: Sequence[Answer]) -> str:
    lines = [words["head_groups"], "|---|---|---:|---:|---|---|---:|"]
    for each in sorted(made, key=lambda answer: -answer.regret):
        source, model, hardware, devices, _ = each.question[:5]
        cells = (
            f"{model} ({source})",
            f"{devices} × {hardware}",
            f"{len(each.plans)}/{each.rows}",
            f"{each.tau:+.2f}",
            _words(each.chosen, each),
            _words(each.plans[0], each),
            f"{each.regret:.1%}".replace("%", " %"),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _words(run: Run, answer: Answer) -> str:
    """The plan, and of precision and batch what differs in its group."""
    more = [run.words]
    if len({each.precision for each in answer.plans}) > 1:
        more.append(run.precision)
    if len({each.batch for each in answer.plans}) > 1:
        more.append(f"{run.batch:,} tokens")
    return ", ".join(more)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; 1 where a page differs"
    )
    asked = parser.parse_args(arguments)
    rows = read_rows()
    found = runs(rows, json.loads(RESULTS.read_text("utf-8")))
    loose = answers(found, lambda run: run.question)
    # Fewer runs are left where precision and batch are the same, too: two plans are a choice.
    strict = answers(found, lambda run: (*run.question, run.precision, run.batch), least=2)
    fits = memory(rows)
    differ = 0
    for lang, name in (("en", "plan-accuracy.md"), ("zh", "plan-accuracy.zh-CN.md")):
        text, path = page(lang, loose, strict, fits), DOCS / name
        if asked.check:
            differ += not path.exists() or path.read_text("utf-8") != text
        else:
            path.write_text(text, "utf-8")
    print(page("en", loose, strict, fits))
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
