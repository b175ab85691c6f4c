"""Cases for the tests of changes: a build captured with changes at work, and predicted."""

from collections.abc import Callable

from gpuscope.advice.live import Live
from gpuscope.advice.registry import plan
from gpuscope.advice.types import Case
from gpuscope.api import predict, resolve_target
from gpuscope.capturing import capture


def case_of(build: Callable, *names: str, on: str = "h200") -> Case:
    """A build on a device, changed."""
    live = Live(plan(names))
    try:
        program = capture(live.wrap(build))
        seen = live.seen()
    finally:
        live.close()
    return Case(predict(program, on), resolve_target(on), program, seen)
