"""Static batching: a batch is taken, and nothing joins it until its last request ends."""

from __future__ import annotations

from gpuscope.serving.schedulers import Plan, Policy, View, cut


def plan(view: View) -> Plan:
    """The next batch where nothing is at work; all its prompts first."""
    if view.partial:
        return Plan(tuple(cut(view, view.partial, view.limits.max_tokens)), decode=False)
    return Plan(()) if view.decoding else batch(view, view.limits.max_sequences)


def batch(view: View, most: int) -> Plan:
    """So many requests of the queue at most, as far as whole answers have room."""
    free, budget = view.free, view.limits.max_tokens
    taken: list[tuple[int, int]] = []
    for each in view.waiting:
        need = view.whole(each, 1.0)
        if len(taken) >= most or need > free or budget <= 0:
            break
        tokens = min(view.left(each), budget)
        taken.append((each, tokens))
        budget, free = budget - tokens, free - need
    return Plan(tuple(taken), decode=False)


POLICY = Policy(plan=plan)
