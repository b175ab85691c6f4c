"""Changes that do harm on purpose, one sort each, and one that helps."""

from __future__ import annotations

import os
import time
from typing import Any

from gpuscope.advice.change import Change
from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Fit
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError


class _OnPurpose(Change):
    group = "operators"
    numerics = "reordered"
    needs_gpu = False

    def fits(self, case: ChangeCase) -> Fit:
        return Fit(True, Text("on purpose"))


class LighterStep(_OnPurpose):
    """Leaves out work that changes no result: see `SLOW` in the workloads."""

    name = "lighter-step"
    title = Text("leave out useless work")

    def install(self, live: Live) -> None:
        os.environ["USELESS_WORK"] = "0"
        live.at_end(lambda: os.environ.update(USELESS_WORK="1"))


class _Faster(LighterStep):
    """Faster, so that its results are looked at, and wrong."""

    name = ""

    def install(self, live: Live) -> None:
        super().install(live)
        self.harm(live)

    def harm(self, live: Live) -> None:
        raise NotImplementedError


class ScaledLoss(_Faster):
    name = "scaled-loss"

    def harm(self, live: Live) -> None:
        live.on_backward(lambda called: lambda loss, *a, **k: called(loss * 1.01, *a, **k))


class NotANumber(_Faster):
    name = "not-a-number"

    def harm(self, live: Live) -> None:
        def edit(module: Any) -> None:
            module.register_forward_hook(lambda _m, _a, output: output * float("nan"))

        live.on_model(edit)


class SkippedStep(_Faster):
    name = "skipped-step"

    def harm(self, live: Live) -> None:
        def use(optimizer: Any) -> None:
            step, calls = optimizer.step, [0]

            def skipping() -> None:
                calls[0] += 1
                if calls[0] != 3:
                    step()

            optimizer.step = skipping

        live.on_optimizer_made(use)


class Hangs(_OnPurpose):
    name = "hangs"
    title = Text("hang")

    def install(self, live: Live) -> None:
        time.sleep(1000)


class Exits(_OnPurpose):
    name = "exits"
    title = Text("exit")

    def install(self, live: Live) -> None:
        print("the last words", flush=True)
        os._exit(7)


class Raises(_OnPurpose):
    name = "raises"
    title = Text("raise")

    def install(self, live: Live) -> None:
        def edit(module: Any) -> None:
            raise ZeroDivisionError("an error on purpose")

        live.on_model(edit)


class TakesAll(_OnPurpose):
    name = "takes-all-memory"
    title = Text("take all memory")

    def install(self, live: Live) -> None:
        import torch

        def edit(module: Any) -> None:
            live.held = [torch.ones(1 << 28) for _ in range(40)]  # type: ignore[attr-defined]

        live.on_model(edit)


class Impossible(_OnPurpose):
    name = "impossible-here"
    title = Text("cannot be")

    def install(self, live: Live) -> None:
        raise UnsupportedError("A package is missing.", "", "")


class NeedsVariable(_OnPurpose):
    name = "needs-a-variable"
    title = Text("a variable")

    def environment(self) -> dict[str, str]:
        return {"NEEDED_BY_A_CHANGE": "yes"}

    def install(self, live: Live) -> None:
        if os.environ.get("NEEDED_BY_A_CHANGE") != "yes":
            raise UnsupportedError("The variable is not there.", "", "")


for change in (
    NeedsVariable(),
    LighterStep(),
    ScaledLoss(),
    NotANumber(),
    SkippedStep(),
    Hangs(),
    Exits(),
    Raises(),
    TakesAll(),
    Impossible(),
):
    register(change)
