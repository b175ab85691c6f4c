"""The ranks' story in a few sentences."""

from __future__ import annotations

from gpuscope.analysis.recorded_types import CollectiveCall, RankStory, Straggler
from gpuscope.analysis.slow_hosts import slowest_host
from gpuscope.document.quantities import Percent, Seconds
from gpuscope.document.text import Text, joined, sentences

REASONS: dict[str, Text] = {
    "began late": Text("its recording or its step began later than the others'"),
    "more work": Text("its device was busy longer"),
    "slower kernels": Text("its device runs equal kernels more slowly"),
    "host dispatching": Text("its host launched work too late"),
    "host synchronising": Text("its host stood in a synchronisation"),
    "waiting for data": Text("its host was loading input"),
    "other communication": Text("it was held up in other communication or copies"),
    "unknown": Text("what it did instead is not recorded"),
}
"""Why a rank is late, as the end of a sentence."""


SHORT: dict[str, Text] = {
    "began late": Text("began late"),
    "more work": Text("more work"),
    "slower kernels": Text("slower kernels"),
    "host dispatching": Text("host dispatching"),
    "host synchronising": Text("host synchronising"),
    "waiting for data": Text("waiting for data"),
    "other communication": Text("other communication"),
    "unknown": Text("unknown"),
}
"""The reasons in a word or two."""


WHERE_SEEN: dict[str, Text] = {
    "steps": Text(""),
    "one step": Text("In the one recorded step"),
    "few collectives": Text("In the few recorded collectives"),
}
"""How a verdict on one rank begins, by `Straggler.seen`."""

RECORD_MORE = Text("Record more steps to see whether it is always this rank.")
"""What to do about a verdict that rests on too little."""

MOST_CAUSES = 4
"""Causes of waiting that are named."""


def rank_sentences(story: RankStory) -> Text:
    """Return the story's sentences."""
    said = [
        Text(
            "{ranks} ranks meet in {collectives} collectives: of {both} in their kernels, summed "
            "over the ranks, {transfer} is transfer and {waiting} is waiting for the last rank.",
            ranks=len(story.ranks),
            collectives=story.matched,
            both=Seconds(story.transfer_s + story.waiting_s),
            transfer=Percent(1 - story.waiting_share),
            waiting=Percent(story.waiting_share),
        )
    ]
    if story.straggler is not None:
        said.append(_straggler(story.straggler))
    elif story.waiting_s > story.waiting_by_reason.get("began late", 0.0):
        said.append(Text("No rank holds up the others step after step."))
    if len(story.causes) > 1:
        said.append(Text("Waiting by cause: {causes}.", causes=_causes(story)))
    if story.calls and story.waiting_s > 0:
        said.append(_worst(story.calls[0]))
    said.append(_began_late(story))
    if not story.complete:
        said.append(Text("Not every rank is recorded: some of the transfer may be waiting too."))
    return sentences(*said)


def _began_late(story: RankStory) -> Text:
    """What of the waiting is the recorder's, and which host is the slowest behind it."""
    began = [(time_s, rank) for rank, reason, time_s in story.causes if reason == "began late"]
    time_s = sum(time_s for time_s, _ in began)
    if not began or time_s < 0.2 * story.waiting_s:
        return Text("")
    hosts = slowest_host(story)
    return sentences(
        Text(
            "{gone} of the waiting is the recorder's, not the program's: the recording of rank "
            "{rank} began late, and it had not caught up. What it did before is not known: record "
            "several steps after a warm-up to see whether it is late again.",
            gone=Seconds(time_s),
            rank=max(began)[1],
        ),
        hosts.after_a_late_start if hosts is not None else "",
    )


def _causes(story: RankStory) -> Text:
    return joined(
        Text("rank {rank} {time} ({why})", rank=rank, time=Seconds(time_s), why=SHORT[reason])
        for rank, reason, time_s in story.causes[:MOST_CAUSES]
    )


def _straggler(straggler: Straggler) -> Text:
    why, share, rank = REASONS[straggler.reason], Percent(straggler.share), straggler.rank
    where = WHERE_SEEN[straggler.seen]
    if not where:
        return Text(
            "Rank {rank} causes {share} of the waiting: {why}.", rank=rank, share=share, why=why
        )
    verdict = Text(
        "{where}, rank {rank} causes {share} of the waiting: {why}.",
        where=where,
        rank=rank,
        share=share,
        why=why,
    )
    return sentences(verdict, RECORD_MORE)


def _worst(call: CollectiveCall) -> Text:
    doing, instead = Text(""), Seconds(call.instead_s)
    if call.reason == "began late":
        doing = Text(", by {instead}", instead=instead)
    elif call.instead_s > 0 and call.reason != "unknown":
        what = call.instead or Text("no operator or call on its host")
        doing = Text(" ({what}, {instead})", what=what, instead=instead)
    return Text(
        "The worst is collective {number} ({name}): {waiting} of waiting for a transfer of "
        "{transfer}; rank {last} came {late} after the median of the others: {why}{doing}.",
        number=call.number,
        name=call.name or Text("unnamed"),
        waiting=Seconds(call.waiting_s),
        transfer=Seconds(call.transfer_s),
        last=call.last,
        late=Seconds(call.late_s),
        why=REASONS[call.reason],
        doing=doing,
    )
