"""vLLM V1 with `--scheduling-policy priority`: the smallest number first, then who came first.

After vllm/v1/core/sched (request_queue.py `PriorityRequestQueue`, scheduler.py `schedule`): the
queue is a heap of (priority, arrival); where blocks run out, the running request with the largest
(priority, arrival) is put off.
"""

from __future__ import annotations

from gpuscope.serving.schedulers import AtWork, Plan, Policy, View
from gpuscope.serving.schedulers.vllm import filled
from gpuscope.serving.work import Work


def rank(work: Work, each: int) -> tuple[int, float, int]:
    """The smaller, the earlier."""
    priority = work.priority[each] if work.priority else 0
    return priority, work.record.intended[each], each


def plan(view: View) -> Plan:
    """As vLLM's own order, but for the queue's."""
    return filled(view, sorted(view.waiting, key=lambda each: rank(view.work, each)))


def least_urgent(at: AtWork) -> int:
    """The one at work that matters least, the latest of its kind."""
    return max((*at.partial, *at.decoding), key=lambda each: rank(at.work, each))


POLICY = Policy(plan=plan, victim=least_urgent)
