"""What `gpuscope guard` would have said of a project's past, commit by commit.

    git clone https://github.com/karpathy/nanoGPT FOLDER
    python benchmarks/guard_history.py FOLDER/.git benchmarks/results/guard-nanogpt.jsonl

Walks the main line, oldest first, and holds each commit against the one before. The model's file
is taken out of git as it stood; the step around it is `STEP`, the same for all: batch, length and
precision of the project's train.py (12 x 1,024 tokens, bfloat16 autocast), eager, the optimizer
that the commit's own code makes. Writes one line a commit: figures, what got worse or better, the
causes (with the lines that the commit wrote, else all); or why it cannot be predicted.
"""

from __future__ import annotations

import difflib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gpuscope.errors import GpuscopeError
from gpuscope.guarding.baseline import Baseline
from gpuscope.guarding.facts import Facts, facts_of
from gpuscope.guarding.history import trace
from gpuscope.guarding.judge import judge
from gpuscope.guarding.settings import COUNTS, SHARES, Guarded, GuardSettings
from gpuscope.guarding.sources import Commit, Sources, sources_of
from gpuscope.program.models.settings import WorkloadOptions

MODEL = "model.py"
ON = "a100-80gb"

STEP = """
import inspect
import torch
from model import GPT, GPTConfig


def build():
    # Whole configurations as train.py gives them; older ones know fewer fields.
    given = dict(block_size=1024, n_layer=12, n_head=12, n_embd=768, dropout=0.0)
    known = inspect.signature(GPTConfig).parameters
    config = GPTConfig(**{name: value for name, value in given.items() if name in known})
    model = GPT(config).cuda()
    hyper = dict(weight_decay=0.1, learning_rate=6e-4, betas=(0.9, 0.95), device_type="cuda")
    asked = inspect.signature(model.configure_optimizers).parameters
    optimizer = model.configure_optimizers(**{k: v for k, v in hyper.items() if k in asked})
    if not isinstance(optimizer, torch.optim.Optimizer):  # parameter groups, of a time
        optimizer = torch.optim.AdamW(optimizer, lr=6e-4, betas=(0.9, 0.95))
    x = torch.randint(0, 50257, (12, 1024), device="cuda")

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits, loss = model(x, x)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step
"""


def _git(folder: str, *words: str) -> str:
    return subprocess.run(
        ["git", f"--git-dir={folder}", *words], check=True, capture_output=True, text=True
    ).stdout


def _commits(folder: str) -> Iterator[tuple[str, str, str, str]]:
    """Hash, day, title and the model's blob of every commit of the main line, oldest first."""
    log = _git(folder, "log", "--first-parent", "--reverse", "--format=%h\t%as\t%s")
    for line in log.splitlines():
        commit, day, title = line.split("\t", 2)
        blob = _git(folder, "ls-tree", commit, "--", MODEL).split()
        if blob:
            yield commit, day, title, blob[2]


class _Written:
    """What a version wrote of its lines, as `gpuscope.guarding.history.History` tells it."""

    def __init__(self, before: str, now: str, commit: Commit) -> None:
        told = difflib.SequenceMatcher(None, before.splitlines(), now.splitlines(), autojunk=False)
        changed = (range(b, end) for op, _, _, b, end in told.get_opcodes() if op != "equal")
        self._lines = {f"{MODEL}:{number + 1}" for each in changed for number in each}
        self._commit = commit

    def placed(self, line: str) -> str:
        return line

    def commit(self, line: str) -> Commit | None:
        return self._commit if line in self._lines else None


def _facts(source: str) -> tuple[Facts, Sources]:
    """Predict in this process; the model's file is imported anew each time."""
    from gpuscope import api

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, MODEL).write_text(source, "utf-8")
        Path(folder, "step.py").write_text(STEP, "utf-8")
        sys.path.insert(0, folder)
        try:
            sys.modules.pop("model", None)
            run = api.predict(f"{folder}/step.py:build", on=ON)
            return facts_of(run), sources_of(run)
        finally:
            sys.path.remove(folder)
            sys.modules.pop("model", None)


def _verdict(before: Facts, now: Facts, sources: Sources) -> list[dict[str, object]]:
    key = ("train", ON)
    guarded = Guarded("train", "", (ON,), WorkloadOptions(), {**SHARES, **COUNTS})
    settings = GuardSettings(Path(), Path(), (guarded,))
    report = judge(settings, {key: (now, sources)}, Baseline({}, {key: before}), {})
    return [
        {
            "fact": held.fact,
            "verdict": held.verdict,
            "before": held.before,
            "now": held.now,
            "causes": [
                [each.what, str(each.told), *(each.commits or each.lines)] for each in held.causes
            ],
        }
        for held in report.judged[0].held
        if held.verdict in ("worse", "better")
    ]


def main() -> None:
    folder, out = sys.argv[1:]
    before: Facts | None = None
    last = source = ""
    rows = []
    for commit, day, title, blob in _commits(folder):
        row: dict[str, object] = {"commit": commit, "day": day, "title": title[:90]}
        if blob == last:
            row["same_model"] = True
        else:
            last = blob
            try:
                old, source = source, _git(folder, "cat-file", "blob", blob)
                facts, sources = _facts(source)
            except GpuscopeError as error:
                row["refused"] = f"{error.what} {error.why}"
            else:
                sources = trace(sources, _Written(old, source, Commit(commit, title)))
                row |= {
                    "step_time_s": facts.step_time_s,
                    "launches": facts.launches,
                    "peak_memory_bytes": facts.peak_memory_bytes,
                    "findings": dict(facts.findings),
                    "said": _verdict(before, facts, sources) if before else [],
                }
                before = facts
        rows.append(json.dumps(row, ensure_ascii=False))
        print(rows[-1][:300], file=sys.stderr)
    Path(out).write_text("\n".join(rows) + "\n", "utf-8")


if __name__ == "__main__":
    main()
