"""What the next iteration of a replica works on: asked of its policy, admitted, given blocks."""

from __future__ import annotations

from gpuscope.serving.batch import Batch
from gpuscope.serving.schedulers import Plan, View
from gpuscope.serving.seats import Seats


class Admitting(Seats):
    """Seats that requests are let to."""

    def begin(self, until: float) -> Batch | None:
        """What the next iteration works on, admitted; None: something was put off, or waits."""
        self.barred = self.barred and self.working
        waiting = self.waiting and not self.barred
        chosen = self._planned() if waiting or self.partial else Plan(())
        decoding = len(self.decoding) if chosen.decode or not chosen.chunks else 0
        if decoding and not self._room(1):
            self._preempt()
        elif chosen.chunks:
            batch = self._taken(chosen, decoding)
            if batch.tokens or decoding:
                return batch
        elif decoding:
            return Batch(decoding)
        elif chosen.wake_s is not None:
            self.now = max(self.now, min(until, chosen.wake_s))
        elif self.partial:
            self._preempt()  # half-done prompts hold all blocks
        return None

    def _planned(self) -> Plan:
        asking, limits = self.asking, self.limits
        asking.begin()
        return self.policy.plan(
            View(
                limits,
                len(self.decoding),
                len(self.decoding) * self.step_tokens,
                self.growth.taken(self.step_count, 1, 0),
                self._unplanned(),
                () if self.barred else self.waiting,
                asking.left,
                asking.need,
                asking.whole,
                self.blocks.free,
                max(0, self.blocks.promised - self.blocks.used),
                self.reserve * self.to_come,
                self.now,
                self.work,
            )
        )

    def _unplanned(self) -> tuple[int, ...]:
        """Half-done prompts that the next iteration may go on with."""
        return tuple(self.partial)

    def _taken(self, chosen: Plan, decoding: int) -> Batch:
        """The prompts of a plan, admitted, their blocks taken."""
        batch, work, size = Batch(decoding), self.work, self.limits.block_tokens
        growing = self.growth.taken(self.step_count, 1, 0) if decoding else 0
        for each, chunk in chosen.chunks:
            if each not in self.partial:
                self._admit(each)
            have, free = work.done[each], self.blocks.free - growing
            need = self.asking.need(each, chunk)
            if need > free:  # as what the plan found in the cache is gone
                chunk = (-(-have // size) + max(free, 0)) * size - have
                need = free
            if chunk <= 0:
                break
            batch.pairs += chunk * have + chunk * (chunk + 1) / 2
            self.blocks.take(need)
            work.done[each] = have + chunk
            batch.tokens += chunk
            batch.worked.append(each)
            if have + chunk < work.goal[each]:
                break  # cut, or what the plan found in the cache had to make room in the meantime
            batch.ended.append(each)
        return batch

    def _admit(self, each: int) -> None:
        work, record = self.work, self.record
        if self.waiting[0] == each:
            self.waiting.popleft()
        else:
            self.waiting.remove(each)
        self.partial[each] = None
        self.blocks.take(work.beside(each))
        if self.policy.promises:
            work.share[each] = self.asking.whole(each, 1.0)
            self.blocks.promised += work.share[each]
        work.done[each] = 0
        if work.brought is not None and not record.preemptions[each]:
            work.done[each] = work.brought[each]
            self.blocks.take(-(-work.brought[each] // self.limits.block_tokens))
        elif names := work.names(each):
            hits = names[: self.blocks.found(work.wanted(names, each))]
            self.blocks.use(hits)
            work.named[each] = [*hits, *self.blocks.name(names[len(hits) :])]
            work.done[each] = len(hits) * work.beginnings.size
            if not work.made[each]:
                record.cached[each] = work.done[each]
        if record.started[each] != record.started[each]:
            record.started[each] = self.now
        else:
            record.put_off[each] += self.now - work.left_at[each]
