"""Capture, predict and compare every program of the corpus: `python -m validation.corpus`.

Goes on where it was interrupted; `--anew` begins again, `--only TEXT` takes the programs whose
name contains it, `--failed` those that failed, `--page` writes docs/coverage.md from the rows.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.metadata
import importlib.util
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from validation.corpus.case import Case
from validation.corpus.one import append, in_child

HERE = Path(__file__).resolve().parent
ROWS = HERE.parent / "results" / "coverage.jsonl"
FAMILIES = tuple(sorted(f.stem for f in (HERE / "families").glob("[a-z]*.py")))


def all_cases() -> list[Case]:
    """Every program, family by family."""
    found: list[Case] = []
    for name in FAMILIES:
        found += importlib.import_module(f"validation.corpus.families.{name}").cases()
    return found


def rows(file: Path = ROWS) -> dict[str, dict[str, Any]]:
    """The last row of each program."""
    if not file.exists():
        return {}
    lines = (json.loads(line) for line in file.read_text("utf-8").splitlines())
    return {row["name"]: row for row in lines}


def failed(row: dict[str, Any]) -> bool:
    """Whether something is left to mend."""
    return not row["predicted"] or not row.get("equal", True)


def main() -> int:
    """Run what is asked for, one program after another."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--anew", action="store_true", help="also what has a row")
    parser.add_argument("--failed", action="store_true", help="what failed or differed, again")
    parser.add_argument("--page", action="store_true", help="only write docs/coverage.md")
    parser.add_argument("--seconds", type=float, default=1e9, help="start none after so long")
    parser.add_argument("--rows", type=Path, default=ROWS)
    args = parser.parse_args()
    if not args.page:
        run(args)
    from validation.corpus import page

    page.write(rows(args.rows), {case.name for case in all_cases()})
    return 0


def run(args: argparse.Namespace) -> None:
    """One row a program, kept at once."""
    import torch

    torch.set_num_threads(1)
    known, began = rows(args.rows), time.perf_counter()
    wanted = [c for c in all_cases() if args.only in c.name]
    if args.failed:
        wanted = [c for c in wanted if c.name in known and failed(known[c.name])]
    elif not args.anew:
        wanted = [c for c in wanted if c.name not in known]
    wanted = [c for c in wanted if all(importlib.util.find_spec(need) for need in c.needs)]
    append(args.rows, {"name": "", "versions": versions()})
    preload({need for case in wanted for need in case.needs})
    for n, case in enumerate(wanted):
        if time.perf_counter() - began > args.seconds:
            print(f"{len(wanted) - n} left", flush=True)
            return
        row = in_child(case)
        append(args.rows, row)
        print(told(row), flush=True)


def _warm() -> Any:
    """A step of a few operators: what it imports every child has."""
    import torch

    model = torch.nn.Linear(8, 8).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(4, 8, device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    return step


def versions() -> dict[str, str]:
    """Of the libraries that programs use, where they are installed."""
    names = "torch transformers diffusers peft torch_geometric timm torchvision".split()
    found = [name for name in names if importlib.util.find_spec(name)]
    return {name: importlib.metadata.version(name) for name in found}


def preload(packages: set[str]) -> None:
    """Import once what every child needs."""
    import gpuscope as gs

    if "torchvision" in packages:
        from validation.corpus.families import vision

        vision.ready()
    for package in sorted(packages):
        importlib.import_module(package)
    gs.predict(_warm, on="h200")
    if "transformers" in packages:
        from validation.corpus.families import transformers_models as family

        for kind in ("llama", "bert"):
            for way in ("train", "generate"):
                gs.predict(partial(family.WAYS[way], "causal", kind, "fixed", "cuda"), on="h200")
    gc.freeze()


def told(row: dict[str, Any]) -> str:
    """A line for the terminal."""
    mark = "ok " if row["predicted"] else "BAD"
    equal = {True: "=", False: "~", None: "?"}[row.get("equal")]
    said = " ".join(row.get("said", [])) or row.get("crash", "")
    real = row.get("real", "")
    apart = json.dumps(row.get("apart", ""))[:200] if equal == "~" else ""
    real = real and f"REAL {real}"
    return f"{mark} {equal} {row['seconds']:6.2f} {row['name']} {said} {real}{apart}"


if __name__ == "__main__":
    sys.exit(main())
