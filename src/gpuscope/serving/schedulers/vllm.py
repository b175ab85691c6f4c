"""vLLM V1: one token budget; what runs comes first, then the queue in order, prompts cut to fit.

After vllm/v1/core/sched/scheduler.py (`schedule`): running requests in order, each
up to the budget; then waiting ones while there is budget, a seat and blocks for the whole prompt;
the first that finds no blocks ends it. Who runs out of blocks puts off the one admitted last, which
is worked on again from the start.
"""

from __future__ import annotations

from gpuscope.serving.schedulers import Plan, View


def plan(view: View) -> Plan:
    """Decodes, then half-done prompts, then new ones."""
    limits = view.limits
    budget = limits.max_tokens - view.decoding
    free = view.free - view.growing
    seats = limits.max_sequences - view.decoding - len(view.partial)
    chunks: list[tuple[int, int]] = []
    for which in (view.partial, view.waiting):
        for each in which:
            left = view.left(each)
            tokens = min(left, budget)
            if tokens <= 0 or (tokens < left and not limits.chunked and budget < limits.max_tokens):
                return Plan(tuple(chunks))
            if which is view.waiting and seats <= 0:
                return Plan(tuple(chunks))
            need = view.blocks(each, tokens)
            if need > free or (which is view.waiting and view.blocks(each, left) > free):
                return Plan(tuple(chunks))
            chunks.append((each, tokens))
            budget, free = budget - tokens, free - need
            seats -= which is view.waiting
    return Plan(tuple(chunks))
