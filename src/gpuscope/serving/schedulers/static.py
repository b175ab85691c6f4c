"""Static batching: a batch is taken, and nothing joins it until its last request ends."""

from __future__ import annotations

from gpuscope.serving.schedulers import Plan, View


def plan(view: View) -> Plan:
    """The next batch where nothing is at work; all its prompts first."""
    limits = view.limits
    if view.partial:
        budget, chunks = limits.max_tokens, []
        for each in view.partial:
            tokens = min(view.left(each), budget)
            if tokens > 0:
                chunks.append((each, tokens))
                budget -= tokens
        return Plan(tuple(chunks), decode=False)
    if view.decoding:
        return Plan(())
    free, budget = view.free, limits.max_tokens
    taken: list[tuple[int, int]] = []
    for each in view.waiting:
        need = view.whole(each, 1.0)
        if len(taken) >= limits.max_sequences or need > free or budget <= 0:
            break
        tokens = min(view.left(each), budget)
        taken.append((each, tokens))
        budget, free = budget - tokens, free - need
    return Plan(tuple(taken), decode=False)
