"""SGLang: new prompts go first, in iterations of their own; decodes wait for them.

After python/sglang/srt/managers (scheduler.py `get_next_batch_to_run`, schedule_policy.py
`PrefillAdder`), not held against a running one: prompts up to the chunk size; a request is admitted
where its prompt and a share of its answer (`new_token_ratio`) fit beside what those at work will
take.
"""

from __future__ import annotations

from gpuscope.serving.schedulers import Plan, View


def plan(view: View) -> Plan:
    """A batch of prompts, or else the decodes."""
    limits = view.limits
    budget, chunks = limits.max_tokens, []
    free = view.free - view.promised
    for each in view.partial:
        tokens = min(view.left(each), budget)
        if tokens > 0 and view.blocks(each, tokens) <= view.free:
            chunks.append((each, tokens))
            budget -= tokens
    seats = limits.max_sequences - view.decoding - len(view.partial)
    for each in view.waiting:
        need = view.whole(each, limits.reserve)
        if seats <= 0 or budget <= 0 or (need > free and (view.decoding or chunks)):
            break
        tokens = min(view.left(each), budget)
        chunks.append((each, tokens))
        budget, free, seats = budget - tokens, free - need, seats - 1
    return Plan(tuple(chunks), decode=not chunks)
