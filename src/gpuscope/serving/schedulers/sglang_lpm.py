"""SGLang with `--schedule-policy lpm`: the longest prefix in the cache goes first.

After python/sglang/srt/managers/schedule_policy.py (`SchedulePolicy.calc_priority`): the queue is
sorted by matched tokens, and left as it is where more than 128 wait.
"""

from __future__ import annotations

from gpuscope.serving.schedulers import Plan, Policy, View
from gpuscope.serving.schedulers.sglang import least_made, prompts_first

MOST_SORTED = 128


def plan(view: View) -> Plan:
    """A batch of prompts, those with most in the cache first, or else the decodes."""
    queue = list(view.waiting)
    if len(queue) <= MOST_SORTED:
        goal = view.work.goal
        queue.sort(key=lambda each: view.left(each) - goal[each])
    return prompts_first(view, queue)


POLICY = Policy(plan=plan, victim=least_made, keeps=False, restless=True)
