"""The section of docs/plan-accuracy.md on our own runs: what `plan_runs.py` predicted and measured.

Reads `results/plan_runs.json` (predicted and committed before any was run), `plan_runs_h200.jsonl`
(measured) and `plan_today.json` (the same plans by today's code: by the catalogue's host, and by
constants of the host that they ran on, benched between them).
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plan_runs_text import TEXT
from plan_today import key_of, today

RESULTS = Path(__file__).resolve().parent / "results"
ON = "h200"
CERTAIN = 0.95
"""Least probability to fit that `plan` recommends."""

Line = dict[str, Any]


def runs() -> list[Line]:
    """Every measured plan: question, words, outcome, what was predicted, and by its own host."""
    predicted = {_key(line): line for line in json.loads(_text("plan_runs.json"))}
    anew = today()
    found = [json.loads(line) for line in _text("plan_runs_h200.jsonl").splitlines()]
    return [
        {
            **line,
            "said": predicted[_key(line)]["on"][ON],
            "today": anew["own"].get(key_of(line)),
            "own": anew["own host"].get(key_of(line)),
        }
        for line in found
    ]


def section(lang: str) -> list[str]:
    """Paragraphs and tables, as Markdown."""
    words, found = TEXT[lang], runs()
    ran = [line for line in found if line["outcome"] == "ran"]
    full = [line for line in found if line["outcome"] == "out of memory"]
    predicted = len(json.loads(_text("plan_runs.json")))
    left = predicted - len(ran) - len(full)
    intro = words["intro"].format(predicted=predicted, ran=len(ran), full=len(full), left=left)
    return [
        words["title"],
        intro,
        _totals(words, ran, full),
        _questions(words, ran, full),
        words["read"],
        _worst(words, ran),
        words["physics"],
    ]


def fits(ran: Sequence[Line], full: Sequence[Line]) -> tuple[int, int, int]:
    """How many verdicts there are, how many were right, and how many said "fits" in vain."""
    wrong = [line for line in full if line["said"]["fits"] >= CERTAIN]
    missed = [line for line in ran if line["said"]["fits"] < CERTAIN]
    count = len(ran) + len(full)
    return count, count - len(wrong) - len(missed), len(wrong)


def regrets(ran: Sequence[Line]) -> dict[str, tuple[Line, Line, float]]:
    """By question: what was chosen, the best measured, how much longer the choice took."""
    found = {}
    for name, lines in _by_question(ran).items():
        chosen = next(line for line in lines if line["said"]["chosen"])
        best = min(lines, key=lambda line: line["step_s"])
        found[name] = chosen, best, chosen["step_s"] / best["step_s"] - 1
    return found


def tau(lines: Sequence[Line]) -> float:
    """Kendall's rank correlation of predicted and measured steps."""
    pairs = [(a, b) for n, a in enumerate(lines) for b in lines[n + 1 :]]
    agree = [
        (a["said"]["step_s"] - b["said"]["step_s"]) * (a["step_s"] - b["step_s"]) > 0
        for a, b in pairs
    ]
    return (2 * sum(agree) - len(pairs)) / len(pairs)


def _totals(words: Mapping[str, Any], ran: Sequence[Line], full: Sequence[Line]) -> str:
    lost = [regret for _, _, regret in regrets(ran).values()]
    taus = [tau(lines) for lines in _by_question(ran).values()]
    count, right, false = fits(ran, full)
    peaks = [abs(line["said"]["peak_bytes"] / line["peak_bytes"] - 1) for line in ran]
    values = (
        f"{_percent(statistics.fmean(lost))}, {_percent(max(lost))}",
        f"{statistics.fmean(taus):.2f}",
        f"{right}/{count}, {false}",
        f"{_percent(statistics.fmean(peaks), 2)}, {_percent(max(peaks), 2)}",
        *(_steps(ran, by) for by in ("said", "today", "own")),
    )
    lines = [words["totals"], "|---|---:|---:|"]
    for (name, target), value in zip(words["rows"], values, strict=True):
        lines.append(f"| {name} | {target} | {value} |")
    return "\n".join(lines)


def _steps(ran: Sequence[Line], by: str) -> str:
    errors = [abs(_error(line[by], line)) for line in ran]
    held = sum(inside(line, by) for line in ran)
    return f"{_percent(statistics.median(errors))}, {_percent(max(errors))}, {held}/{len(ran)}"


def _questions(words: Mapping[str, Any], ran: Sequence[Line], full: Sequence[Line]) -> str:
    lines = [words["head"], "|---|---:|---:|---|---|---:|"]
    chosen, groups = regrets(ran), _by_question(ran)
    for name, (taken, best, regret) in chosen.items():
        out = sum(line["question"] == name for line in full)
        cells = (
            name,
            f"{len(groups[name])} + {out}",
            f"{tau(groups[name]):+.2f}",
            f"{taken['words']} ({_ms(taken)})",
            f"{best['words']} ({_ms(best)})",
            _percent(regret),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _worst(words: Mapping[str, Any], ran: Sequence[Line]) -> str:
    """The three plans that were predicted worst."""
    lines = [words["worst"], "|---|---|---:|---:|---:|---:|"]
    for line in sorted(ran, key=lambda line: -abs(_error(line["said"], line)))[:3]:
        said = (_ms(line[by]) for by in ("said", "today", "own"))
        cells = (line["question"], line["words"], *said, _ms(line))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _by_question(lines: Sequence[Line]) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = {}
    for line in lines:
        found.setdefault(line["question"], []).append(line)
    return found


def _error(said: Line, line: Line) -> float:
    return float(said["step_s"]) / float(line["step_s"]) - 1


def inside(line: Line, by: str) -> bool:
    """Whether a prediction's 80 % interval holds the measured step."""
    return bool(line[by]["low_s"] <= line["step_s"] <= line[by]["high_s"])


def _ms(line: Line) -> str:
    return f"{line['step_s'] * 1e3:,.0f} ms"


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def _key(line: Line) -> tuple[str, str]:
    return line["question"], line["words"]


def _text(name: str) -> str:
    return (RESULTS / name).read_text("utf-8")
