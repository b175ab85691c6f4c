"""SGLang: new prompts go first, in iterations of their own; decodes wait for them.

After python/sglang/srt/managers (main of 2026): `Scheduler.get_next_batch_to_run` takes a batch of
prompts where there is one; `PrefillAdder` (schedule_policy.py) admits a request where its prompt
and its whole answer fit beside what runs, of which a share of the answers is reckoned to come
(`new_token_ratio`: 0.7 at first, falls to 0.098 in 600 decode steps, environ.py); prompts share
`chunked_prefill_size`, and one may be cut; whole ones share `max_prefill_tokens` where none is.
Where a decode step finds no room, `ScheduleBatch.retract_decode` puts off who has made fewest
tokens, of these the longest prompt, frees what it held at once, and sets the ratio anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuscope.serving.schedulers import AtWork, Plan, Policy, View, cut


def plan(view: View) -> Plan:
    """A batch of prompts as they came, or else the decodes."""
    return prompts_first(view, view.waiting)


def prompts_first(view: View, queue: Iterable[int]) -> Plan:
    """A batch of prompts in that order, or else the decodes."""
    limits = view.limits
    chunks = cut(view, view.partial, limits.max_tokens)
    if sum(view.blocks(each, tokens) for each, tokens in chunks) > view.free:
        return Plan(())
    budget = limits.max_tokens - sum(tokens for _, tokens in chunks)
    size = limits.block_tokens
    free = view.free - view.expected / size
    for each in view.partial:
        free -= view.blocks(each, view.left(each)) + view.work.to_come(each) / size
    seats = limits.max_sequences - view.decoding - len(view.partial)
    for each in queue:
        if seats <= 0 or budget <= 0:
            break
        left = view.left(each)
        if chunks and not limits.chunked and left >= budget:
            break
        prompt = view.blocks(each, left)
        need = prompt + view.work.to_come(each) / size
        if need > free and (view.decoding or chunks or prompt > view.free):
            break
        chunks.append((each, min(left, budget)))
        budget, free, seats = budget - left, free - need, seats - 1
    return Plan(tuple(chunks), decode=not chunks)


def least_made(at: AtWork) -> int:
    """Who has made fewest tokens, of these the longest prompt."""
    if not at.decoding:
        return next(reversed(at.partial))
    work, step = at.work, at.step_count
    return min(
        at.decoding,
        key=lambda each: (work.made[each] + step - work.since[each], -work.inputs[each]),
    )


POLICY = Policy(plan=plan, victim=least_made, keeps=False, restless=True)
