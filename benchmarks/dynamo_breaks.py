"""Graph breaks as Dynamo finds them, for rows of the zoo: `benchmarks/dynamo_breaks.py NAME`.

Runs the real tracer under the capture's fakes, beside the capture, and prints how many graphs it
makes, why and where it breaks, and how long it took, with the breaks that the capture lists. It
takes 3 to 40 s a model, which is why the capture does not ask it. No GPU. It reaches into the
capture, and into torch 2.13's Dynamo, which cannot follow a step that depends on data: it then says
so.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "validation"), str(ROOT / "validation/workloads")]


def explained(function: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Trace one call; the hooks that follow modules are put aside, for Dynamo traces them, too."""
    import torch
    from torch.nn.modules import module

    names = (
        "_global_forward_pre_hooks",
        "_global_forward_hooks",
        "_global_forward_hooks_always_called",
    )
    held = [(hooks, dict(hooks)) for hooks in (getattr(module, name) for name in names)]
    started = time.perf_counter()
    for hooks, _ in held:
        hooks.clear()
    try:
        found = torch._dynamo.explain(function)(*args, **kwargs)
    except Exception as error:  # what Dynamo cannot trace under fakes must not end the others
        print(f"  Dynamo gave up after {time.perf_counter() - started:.1f} s: {error!r:.200}")
        return
    finally:
        for hooks, before in held:
            hooks.update(before)
    print(
        f"  Dynamo: {found.graph_count} graphs, {found.graph_break_count} breaks, "
        f"{time.perf_counter() - started:.1f} s"
    )
    for reason in found.break_reasons:
        frame = reason.user_stack[-1]
        site = f"{Path(frame.filename).name}:{frame.lineno}"
        print(f"    {site}: {str(reason.reason).splitlines()[0]}")


def main() -> None:
    import torch._dynamo
    from zoo import ZOO

    from gpuscope.program.capture import capture, compiled
    from gpuscope.program.capture.recorder import Recorder
    from measure import resolve_build

    Recorder.is_infra_mode = classmethod(lambda cls: True)  # Dynamo does not trace below others
    entering, seen = compiled._entering, set()

    def watched(function: Callable[..., Any], regions: Any) -> Callable[..., Any]:
        inner = entering(function, regions)

        def call(*args: Any, **kwargs: Any) -> Any:
            if id(function) not in seen:
                seen.add(id(function))
                with regions.call():
                    explained(function, args, kwargs)
            return inner(*args, **kwargs)

        return call

    compiled._entering = watched
    for entry in ZOO:
        if entry.name in sys.argv[1:]:
            torch._dynamo.reset()
            print(entry.name)
            program = capture(resolve_build(entry))
            for found in program.graph_breaks:
                print(f"  capture: {found.site}, {found.count} times: {found.reason}")


if __name__ == "__main__":
    main()
