"""TensorRT-LLM with MAX_UTILIZATION: requests join while this iteration has room.

After tensorrt_llm/_torch/pyexecutor/scheduler/scheduler.py (`MaxUtilizationPolicy`), not held
against a running one: a request is admitted where the blocks of its prompt are free beside those
that this iteration takes; where blocks run out, the one that started last is paused, and begins
again with what it made.
"""

from __future__ import annotations

from gpuscope.serving.schedulers import Plan, Policy, View, cut


def plan(view: View) -> Plan:
    """Decodes, and the prompts that there are blocks for now."""
    limits = view.limits
    free = view.free - view.growing
    chunks = cut(view, view.partial, limits.max_tokens - view.taken)
    free -= sum(view.blocks(each, tokens) for each, tokens in chunks)
    if free < 0:
        return Plan(())
    budget = limits.max_tokens - view.taken - sum(tokens for _, tokens in chunks)
    seats = limits.max_sequences - view.decoding - len(view.partial)
    for each in view.waiting:
        left = view.left(each)
        need = view.blocks(each, left)
        whole = left <= budget or left > limits.max_tokens  # too long for any iteration: cut
        if seats <= 0 or budget <= 0 or need > free or not (whole or limits.chunked):
            break
        chunks.append((each, min(left, budget)))
        budget, free, seats = budget - min(left, budget), free - need, seats - 1
    return Plan(tuple(chunks))


POLICY = Policy(plan=plan)
