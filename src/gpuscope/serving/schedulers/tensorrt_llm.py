"""TensorRT-LLM: in-flight batching that never puts anything off (GUARANTEED_NO_EVICT).

After tensorrt_llm/_torch/pyexecutor/scheduler/scheduler.py (`GuaranteedNoEvictPolicy`), not held
against a running one: a request is admitted where all blocks that it can ever take are free,
prompts join the iterations of what decodes while the token budget holds, whole unless chunking is
on.
"""

from __future__ import annotations

from gpuscope.serving.schedulers import Plan, Policy, View, cut


def plan(view: View) -> Plan:
    """Decodes, and the prompts that fit beside them for good."""
    limits = view.limits
    chunks = cut(view, view.partial, limits.max_tokens - view.taken)
    budget = limits.max_tokens - view.taken - sum(tokens for _, tokens in chunks)
    free = view.free - view.promised
    seats = limits.max_sequences - view.decoding - len(view.partial)
    for each in view.waiting:
        left, need = view.left(each), view.whole(each, 1.0)
        whole = left <= budget or left > limits.max_tokens  # too long for any iteration: cut
        if seats <= 0 or budget <= 0 or need > free or not (whole or limits.chunked):
            break
        chunks.append((each, min(left, budget)))
        budget, free, seats = budget - min(left, budget), free - need, seats - 1
    return Plan(tuple(chunks))


POLICY = Policy(plan=plan, promises=True)
