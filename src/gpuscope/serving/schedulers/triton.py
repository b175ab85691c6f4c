"""Triton Inference Server's dynamic batching, over a model that answers a batch as a whole.

As its model configuration says (`dynamic_batching`): a batch of a preferred size goes at once, the
largest that can be made; where none can, it waits until its oldest request has been in the queue
for `max_queue_delay_microseconds`, and then goes as it is. Without preferred sizes the largest
batch is the one that is preferred. Nothing joins a batch on its way.
"""

from __future__ import annotations

from gpuscope.serving.schedulers import Plan, Policy, View
from gpuscope.serving.schedulers.static import batch
from gpuscope.serving.schedulers.static import plan as static


def plan(view: View) -> Plan:
    """A preferred batch, or what is there when the delay is over."""
    limits, queue = view.limits, len(view.waiting)
    if view.partial or view.decoding or not queue:
        return static(view)
    sizes = [size for size in limits.sizes or (limits.max_sequences,) if size <= queue]
    if sizes:
        return batch(view, min(max(sizes), limits.max_sequences))
    oldest = next(iter(view.waiting))
    wake_s = view.work.record.intended[oldest] + limits.delay_s
    if view.now >= wake_s - 1e-12:
        return batch(view, limits.max_sequences)
    return Plan((), wake_s=wake_s)


POLICY = Policy(plan=plan)
