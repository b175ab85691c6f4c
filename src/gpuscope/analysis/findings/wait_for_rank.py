"""Ranks wait for another rank: which one, in which collective, and why it is late."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuscope.analysis.account import WAITING_CAUSE
from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.recorded_types import RankStory
from gpuscope.analysis.types import About, Finding
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text, sentences

if TYPE_CHECKING:
    from gpuscope.analysis.slow_hosts import SlowHosts

LEAST_SHARE = 0.05
"""Waiting for one rank that nothing hides below this share of the ranks' time is usual."""

LEAST_SHARE_OF_ALL = 0.10
"""The same where ranks take turns: small differences between equal ranks always cost something."""

_KINDS = {
    "host dispatching": "host_bound",
    "host synchronising": "host_bound",
    "waiting for data": "input_bound",
}
"""The waiting is only the symptom: a rank whose host is late makes the whole run host-bound."""

_OWN_IDLE = {
    "host_bound": ("host dispatching", "host synchronising"),
    "input_bound": ("waiting for data",),
}
"""What a rank that holds up the others idles for itself, by the kind that says so."""

_HINTS = {
    "host_bound": Text(
        "Make that rank's host faster: torch.compile(mode='reduce-overhead') or CUDA graphs, no "
        "synchronisation between collectives, no other process on its cores, equal CPU placement."
    ),
    "on the host": Text(
        "Make that rank's host faster: fewer and larger operators, torch.compile, no other process "
        "on its cores, equal CPU placement."
    ),
    "input_bound": Text(
        "Speed up its input: more DataLoader workers, prefetching, equal shards, faster storage."
    ),
    "more work": Text(
        "Give the ranks equal work: equal batch and sequence lengths, balanced experts, embedding "
        "tables or pipeline stages."
    ),
    "slower kernels": Text(
        "Check that device: clocks, temperature, power limit, ECC errors, other processes "
        "(nvidia-smi -q); replace it if it stays slow."
    ),
    "other communication": Text(
        "Look at what it communicates beside: other groups, pipeline neighbours, copies."
    ),
    "unknown": Text(
        "Record the host too (ProfilerActivity.CPU), to see what that rank did instead."
    ),
}


@finding("wait_for_rank", needs="ranks", order=70, kinds=("host_bound", "input_bound"))
def wait_for_rank(facts: Facts) -> Finding | None:
    """Applies when unhidden waiting takes a twentieth of the ranks' time (a tenth: no straggler).

    Where one rank holds up the others its reason decides the kind: a late host is `host_bound`,
    late input `input_bound`. Likewise where the ranks take turns but most of the waiting has such
    a reason.

    Gain: with one straggler, the most that any rank waits for it, but for a late host no more than
    it takes longer than the second slowest host. Where the hosts are all alike and slower than
    their devices (see `slow_hosts`), all of the waiting. Without a straggler the mean waiting, as
    if the same work were spread evenly. Waiting for a rank that began late is the recorder's and
    not counted; where it hides which host is the slowest, that host is named (`slowest_host`) and
    its lead over the second slowest is the gain.
    """
    story = facts.ranks
    # A predicted job's waiting is told by its causes: `pipeline_bubble`, `imbalance`.
    if story is None or story.span_s <= 0 or facts.job is not None:
        return None
    from gpuscope.analysis.rank_words import RECORD_MORE
    from gpuscope.analysis.slow_hosts import slow_hosts, slowest_host

    if (slowest := slowest_host(story)) is not None:
        return replace(_slowest(story, slowest, facts.on_host), about=_about(facts, "host_bound"))
    began = story.waiting_by_reason.get("began late", 0.0)
    counted = 1.0 - began / story.waiting_s if story.waiting_s > 0 else 0.0
    waits = [share.exposed_waiting_s * counted for share in story.ranks]
    share = sum(waits) / (len(waits) * story.span_s)
    straggler = story.straggler
    if share < (LEAST_SHARE if straggler is not None else LEAST_SHARE_OF_ALL):
        return None
    reason = straggler.reason if straggler is not None else _main_reason(story)
    kind = _KINDS.get(reason, "wait_for_rank")
    gain = max(straggler.waits_s) if straggler is not None else sum(waits) / len(waits)
    title = _title(story, kind, reason, share)
    hint = _HINTS[kind] if kind in _HINTS else _HINTS[reason]
    evidence = story.sentence
    hosts = slow_hosts(story) if reason == "host dispatching" else None
    if hosts is not None:
        evidence = sentences(hosts.told, evidence)
        gain = gain if hosts.alike else min(gain, hosts.lead_s * story.steps)
        if hosts.alike:
            title = hosts.title(share * story.span_s / story.steps, share)
            hint = hosts.hint
    if facts.on_host and kind == "host_bound":
        hint = _HINTS["on the host"]
    if straggler is not None and straggler.seen != "steps":
        hint = sentences(RECORD_MORE, hint)
    return Finding(
        kind=kind,
        title=title,
        evidence=evidence,
        max_gain_s=gain / story.steps,
        hint=hint,
        about=_about(facts, kind),
    )


def _about(facts: Facts, kind: str) -> About:
    """The waiting, and what a rank that holds up the others idles for itself."""
    idle = (WAITING_CAUSE, *_OWN_IDLE.get(kind, ()))
    return facts.about(facts.losses.talk, idle=idle, explains_s=facts.term_s("waiting"))


def _slowest(story: RankStory, hosts: SlowHosts, on_host: bool) -> Finding:
    """The slowest host, where all that is recorded is waiting for a rank that began late."""
    hint = _HINTS["on the host" if on_host else "host_bound"]
    time, second = Seconds(hosts.slowest_s), Seconds(hosts.second_s)
    return Finding(
        kind="host_bound",
        title=Text(
            "The host of rank {rank} is the slowest: a step takes it {time}, the next {second}, "
            "and all ranks end up waiting for it.",
            rank=hosts.rank,
            time=time,
            second=second,
        ),
        evidence=story.sentence,
        max_gain_s=hosts.lead_s,
        hint=hint,
    )


def _main_reason(story: RankStory) -> str:
    """The reason for most of the counted waiting, if it is most of it."""
    known = {why: time for why, time in story.waiting_by_reason.items() if why != "began late"}
    reason, time_s = next(iter(known.items()), ("unknown", 0.0))
    return reason if time_s * 2 > sum(known.values()) else "unknown"


def _title(story: RankStory, kind: str, reason: str, share: float) -> Text:
    from gpuscope.analysis.rank_words import REASONS, WHERE_SEEN

    mean = Seconds(share * story.span_s / story.steps)
    part = Percent(share)
    straggler = story.straggler
    if straggler is None:
        return Text(
            "The ranks wait for each other {part} of the time ({mean} a step), now for one, now "
            "for another.",
            part=part,
            mean=mean,
        )
    where = WHERE_SEEN[straggler.seen]
    said = _host_holds_up if kind == "host_bound" else _ranks_wait
    return said(where, straggler.rank, part, mean, REASONS[reason])


def _host_holds_up(where: Text, rank: int, part: Percent, mean: Seconds, why: Text) -> Text:
    if not where:
        return Text(
            "The host of rank {rank} holds up all ranks: they wait {part} of the time ({mean} a "
            "step) because {why}.",
            rank=rank,
            part=part,
            mean=mean,
            why=why,
        )
    return Text(
        "{where}, the host of rank {rank} holds up all ranks: they wait {part} of the time ({mean} "
        "a step) because {why}.",
        where=where,
        rank=rank,
        part=part,
        mean=mean,
        why=why,
    )


def _ranks_wait(where: Text, rank: int, part: Percent, mean: Seconds, why: Text) -> Text:
    if not where:
        return Text(
            "The ranks wait for rank {rank} {part} of the time ({mean} a step): {why}.",
            rank=rank,
            part=part,
            mean=mean,
            why=why,
        )
    return Text(
        "{where}, the ranks wait for rank {rank} {part} of the time ({mean} a step): {why}.",
        where=where,
        rank=rank,
        part=part,
        mean=mean,
        why=why,
    )
