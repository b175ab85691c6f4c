"""One replica under load, from event to event.

Between two events (a request comes, ends, or a prompt is worked on) every iteration decodes the
same sequences, and only their keys grow: such a stretch is one step here. Its iterations' times are
taken as a straight line between its first and its last one, whose sum follows in closed form.
Where the engine overlaps host and device, the next iteration is planned when one begins: who comes
meanwhile is `late`, and waits for both. Requests come in and tokens go out through one process
(`Front`), which may fall behind. Who has a seat is `Seats`, who gets one `Admitting`. All times are
seconds from the start.
"""

from __future__ import annotations

from math import inf

from gpuscope.serving.admitting import Admitting
from gpuscope.serving.batch import MOST_STEPS, Batch, steps_until
from gpuscope.serving.front import Spoken


class Replica(Admitting):
    """An engine with a clock."""

    def join(self, each: int, intended: float, now: float) -> None:
        """A request comes into the queue."""
        if not self.busy:
            self.now = max(self.now, now)
        self.record.intended[each] = intended
        self.work.left_at[each] = intended
        self.late.add(each, now, self.engine.accepted_s(self.work.inputs[each]))

    def step(self, until: float) -> None:
        """One event: an iteration with prompts, or a stretch of decoding that ends by `until`.

        Whoever drives it takes those that ended after each step (`take_ended`).
        """
        if self.told():
            return
        if not self.working and not self.waiting and not self.comes(until):
            return
        self.see(self.working)
        batch = self.begin(until)
        if batch is None:
            return
        if batch.tokens:
            self._iterate(batch)
        else:
            self._stretch(until)

    def told(self) -> bool:
        """Whether last tokens went out by now: whose places are free, others may come to."""
        self.late.advance(self.now)
        return bool(self.late.ended)

    def comes(self, until: float) -> bool:
        """Whether, of those on their way to an idle replica, one is there by then; it rests so."""
        ready_s = self.late.next_s(until)
        by_s = min(ready_s, until)
        if by_s < inf:
            self.now = max(self.now, by_s)
        return ready_s <= until and ready_s < inf and not self.late.ended

    def see(self, working: bool) -> None:
        """Who had come when the next iteration was planned can be in it."""
        if working and (self.step_count - self.looks) % self.engine.look_steps:
            return
        planned = self.planned if working and self.engine.overlapped else self.now
        idle = not working and not self.waiting and self.engine.accept_s > 0.0
        self.waiting.extend(self.late.out(planned, 1 if idle else inf))

    def take_ended(self) -> list[int]:
        """Requests that have ended since somebody asked."""
        return self.late.take_ended()

    def _iterate(self, batch: Batch) -> None:
        """Work on prompts, beside what decodes where the policy says so."""
        decoding, ended = batch.decoding, len(batch.ended)
        device = self.iteration_s(batch.tokens, batch.pairs, ended, decoding)
        alone = self.iteration_s(0, 0.0, 0, decoding) if decoding else 0.0
        self.worked(batch, self.engine.step_s(device, batch.sequences, batch.tokens), device, alone)

    def worked(self, batch: Batch, took: float, device: float, alone: float) -> None:
        """An iteration is over.

        Args:
            batch: of it.
            took: it lasted.
            device: of that, the device's work.
            alone: of that, without any prompts.
        """
        decoding, begun = batch.decoding, self.now
        self.now += took
        prefill = self.record.prefill
        for each in batch.worked:
            prefill[each] += took
        rest = took - device
        self.totals[0] += alone if decoding else 0.0
        self.totals[1] += rest if decoding else 0.0
        self.totals[2] += took - alone - rest if decoding else took
        if decoding:
            self._advance(1)
        self.looks = self.step_count
        self.late.say(Spoken(begun, took, 0.0, 1, decoding + len(batch.ended)))
        self.planned = begun
        for each in batch.ended:
            self._begin_decoding(each)
        self.barred = False
        self._finish()
        host = self.engine.host_busy_s(batch.sequences, batch.tokens)
        self._row(begun, 1, device, host, batch.tokens, decoding)

    def iteration_s(self, tokens: int, pairs: float, ended: int, decoding: int) -> float:
        """Device time of the next iteration, of its prompts and of what decodes."""
        return self.device_s(tokens, pairs, ended, decoding, float(self.keys + decoding))

    def _stretch(self, until: float) -> None:
        """Decode until something changes."""
        sequences, steps = len(self.decoding), self.most_steps()
        first = self._decode_s(0)
        slope = (self._decode_s(steps) - first) / steps
        steps = self.steps_by(until, steps, first, slope)
        device = steps * self.device_s(
            0, 0.0, 0, sequences, self.keys + sequences * (steps + 1) / 2
        )
        self.decoded(steps, first, slope, device)

    def most_steps(self) -> int:
        """Of a stretch: until a sequence ends, or blocks run out."""
        once = self.barred or (self.policy.restless and self.waiting)
        steps = 1 if once else min(self.ends[0][0] - self.step_count, MOST_STEPS)
        return self._roomy(max(steps, 1))

    def steps_by(self, until: float, steps: int, first: float, slope: float) -> int:
        """Of a stretch of so many, those before who comes by `until` can be planned.

        Args:
            until: when the next request comes; it is let in `accept_s` later at the earliest.
            steps: at most.
            first: what the first iteration takes.
            slope: by how much longer each takes than the one before.
        """
        if self.late.open:
            if self.late.coming or self.late.to_end:
                return 1
            rest = self.late.queued[0][0] - self.now  # until an iteration begins that has it
            more = steps_until(rest, first, slope) + self.engine.overlapped if rest > 0 else 1
            more += (self.looks - self.step_count - more) % self.engine.look_steps
            steps = min(steps, more)
        if until < inf and not self.waiting:  # behind one that finds no room, none is admitted
            comes = until + self.engine.accept_s - self.now
            steps = min(steps, steps_until(comes, first, slope))
        return steps

    def decoded(self, steps: int, first: float, slope: float, device: float) -> None:
        """A stretch is over; its device time is that of all steps."""
        sequences, begun = len(self.decoding), self.now
        took = steps * first + slope * steps * (steps - 1) / 2
        self.now += took
        self.late.say(Spoken(begun, first, slope, steps, sequences))
        self.planned = self.now - (first + slope * (steps - 1))
        self.totals[0] += min(device, took)
        self.totals[1] += max(took - device, 0.0)
        self._advance(steps)
        self.barred = False
        self._finish()
        host = steps * self.engine.host_busy_s(sequences, 0)
        self._row(begun, steps, device, host, 0, sequences)

    def _decode_s(self, later: int) -> float:
        sequences = len(self.decoding)
        device = self.device_s(0, 0.0, 0, sequences, float(self.keys + sequences * (later + 1)))
        return self.engine.step_s(device, sequences, 0)

    def _row(
        self, begun: float, steps: int, device: float, host: float, tokens: int, decoding: int
    ) -> None:
        self.rows.add(
            (begun, steps, device, host, tokens, decoding, self.blocks.used,
             self.queued, self.row_preemptions)
        )  # fmt: skip
        self.row_preemptions = 0
