"""Find the smallest level at which each architecture runs for real on the CPU: `levels.json`.

`python -m validation.corpus.probe [task ...]`: each try in a process of its own.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

from validation.corpus.families import transformers_models as family
from validation.corpus.shrink import LEVELS

LIMIT_S = 20
PARAMETERS = 120e6


def runs(task: str, kind: str, way: str, level: str) -> tuple[bool, str]:
    """Whether two steps run on the CPU within the limit, and else why not."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        said = ""
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            signal.alarm(LIMIT_S)
            import torch

            with torch.device("meta"):
                size = sum(p.numel() for p in family.make(task, kind, level, "meta").parameters())
            if size > PARAMETERS:
                said = f"{size / 1e6:.0f} million parameters"
            else:
                step = family.WAYS[way](task, kind, level, "cpu")
                step()
                step()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"[:300]
        os.write(write, said.encode()[:1000])
        os._exit(bool(said))
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    status = os.waitpid(pid, 0)[1]
    return status == 0, said or (f"signal {status & 127}" if status else "")


def main() -> None:
    """Try what is not in the file yet; what runs at no level is printed with its reason."""
    import torch
    import transformers  # noqa: F401

    os.environ["HF_HUB_OFFLINE"] = "1"
    torch.set_num_threads(1)
    known: dict[str, Any] = json.loads(family.LEVELS.read_text()) if family.LEVELS.exists() else {}
    for task in sys.argv[1:] or family.TABLES:
        found: dict[str, Any] = known.setdefault(task, {})
        for kind in sorted(family.table(task)):
            if kind in found:
                continue
            found[kind] = {}
            began, why = time.perf_counter(), ""
            for way in family.ways(task):
                first = list(found[kind].values())[:1]
                for level in first or LEVELS:
                    good, why = runs(task, kind, way, level)
                    if good:
                        found[kind][way] = level
                        break
                    if "ModuleNotFound" in why or "requires the" in why:
                        break
            took = time.perf_counter() - began
            print(f"{took:5.1f} {task} {kind} {found[kind]} {why}", flush=True)
            family.LEVELS.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
