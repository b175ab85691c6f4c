"""vLLM V1: one token budget; what runs comes first, then the queue in order, prompts cut to fit.

After vllm/v1/core/sched/scheduler.py (`schedule`): running requests in order, each
up to the budget; then waiting ones while there is budget, a seat and blocks for the whole prompt;
the first that finds no blocks ends it. Who runs out of blocks puts off the one admitted last, which
is worked on again from the start.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.serving.schedulers import Plan, Policy, View


def plan(view: View) -> Plan:
    """Decodes, then half-done prompts, then new ones as they came."""
    return filled(view, view.waiting)


def filled(view: View, queue: Iterable[int]) -> Plan:
    """Decodes, then half-done prompts, then new ones in that order."""
    limits = view.limits
    budget = limits.max_tokens - view.taken
    free = view.free - view.growing
    seats = limits.max_sequences - view.decoding - len(view.partial)
    chunks: list[tuple[int, int]] = []
    for which in (view.partial, queue):
        for each in which:
            left = view.left(each)
            tokens = min(left, budget)
            if tokens <= 0 or (tokens < left and not limits.chunked and budget < limits.max_tokens):
                return Plan(tuple(chunks))
            if which is queue and seats <= 0:
                return Plan(tuple(chunks))
            need = view.blocks(each, tokens)
            if need > free or (which is queue and view.blocks(each, left) > free):
                return Plan(tuple(chunks))
            chunks.append((each, tokens))
            budget, free = budget - tokens, free - need
            seats -= which is queue
    return Plan(tuple(chunks))


POLICY = Policy(plan=plan)
