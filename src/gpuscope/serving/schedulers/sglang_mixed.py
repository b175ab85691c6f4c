"""SGLang with `--enable-mixed-chunk`: what decodes joins the iterations of prompts.

After python/sglang/srt/managers (`Scheduler.get_new_batch_prefill`, `mix_with_running`): a batch of
prompts is made as without it, its tokens less one for each sequence that decodes
(`PrefillAdder.mixed_with_decode_tokens`), and these take their step in the same iteration.
"""

from __future__ import annotations

from dataclasses import replace

from gpuscope.serving.schedulers import Plan, Policy, View
from gpuscope.serving.schedulers.sglang import least_made, prompts_first


def plan(view: View) -> Plan:
    """A batch of prompts as they came, and the decodes beside it."""
    room = max(1, view.limits.max_tokens - view.decoding)
    beside = replace(
        view, limits=replace(view.limits, max_tokens=room), free=view.free - view.growing
    )
    return replace(prompts_first(beside, view.waiting), decode=True)


POLICY = Policy(plan=plan, victim=least_made, keeps=False, restless=True)
