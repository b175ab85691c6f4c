"""Builds that are really run on the host, with and without changes."""

from collections.abc import Callable

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import find


def results(build: Callable, *names: str, steps: int = 3) -> list:
    """What each step of a build returns, detached, with changes at work."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tiny sizes: threads would only wait for each other
    live = Live(sorted((find(n) for n in names), key=lambda c: c.rank))
    try:
        torch.manual_seed(0)
        step = live.wrap(build)()
        return [step().detach().clone() for _ in range(steps)]
    finally:
        live.close()
        torch.set_num_threads(threads)
