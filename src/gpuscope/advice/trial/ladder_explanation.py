"""A ladder for its reader: what was gained, by what, with which evidence, and what did not help."""

from __future__ import annotations

from gpuscope.advice.results import Ladder, Trial
from gpuscope.advice.trial.host_pace import BENCHED, SAVED
from gpuscope.advice.trial.ladder_figures import (
    OUTCOMES,
    best_parity,
    best_trial,
    cut_short,
    duration,
    failed,
    failed_table,
    objective_gain,
    pace,
    parity_table,
    predicted_step_s,
    quantity,
    share_of,
    step_bars,
    step_table,
    titles_of,
    trial_table,
    untried,
    untried_table,
)
from gpuscope.advice.trial.rungs import best_step_s, rungs
from gpuscope.document.blocks import Block, Code, CodeLine, Explanation, Paragraph, Section, Tone
from gpuscope.document.quantities import Bytes, Number, Percent, Ratio, Seconds
from gpuscope.document.text import Text, Value, joined, plural, sentences

__all__ = ["explain_ladder"]

_OFF = 1.25
"""A step that takes so many times as long or short as predicted is worth a sentence."""
_WAITS = 0.1
"""A step that waits for its loader for such a share of its time is worth a sentence."""
_DRIFT = 0.05
"""Single measurements that are farther from the pairs than this need a sentence of their own."""

_ANOTHER_MACHINE = Text(
    "predictions suppose another machine, mostly another host, or are wrong here. gpuscope bench "
    "--quick --save measures this one, for the next predictions."
)
_WRONG = Text(
    "the host was measured, so predictions are wrong here, or the host's pace has changed since."
)
"""Where predictions are for the host as it was benched, another bench would not help."""


def explain_ladder(ladder: Ladder, patch_path: str = "") -> Explanation:
    """Explain a ladder.

    Args:
        ladder: what `optimize` found.
        patch_path: where its patch was written, for the command that applies it; "" for nowhere.
    """
    parts = [
        _ladder_section(ladder),
        _parity_section(ladder),
        _failed_section(ladder),
        _trials_section(ladder),
        _patch_section(ladder),
    ]
    commands = []
    if ladder.patch and patch_path:
        commands.append(f"git apply {patch_path}")
    return Explanation(
        topic="ladder",
        title=_title(ladder),
        summary=_summary(ladder),
        sections=tuple(part for part in parts if part is not None),
        commands=tuple(commands),
        assumptions=ladder.notes,
    )


def _title(ladder: Ladder) -> Text:
    where = f"{ladder.target.name} · {ladder.device}"
    if not ladder.best and cut_short(ladder):
        return Text("{where}: nothing found in this time", where=where)
    if not ladder.best:
        return Text("{where}: nothing to change", where=where)
    gained = objective_gain(ladder)
    if gained is None:
        return Text("{where}: improved", where=where)
    times = Number(gained)
    if ladder.objective == "memory":
        return Text("{where}: {times} times less memory", where=where, times=times)
    if ladder.objective == "energy":
        return Text("{where}: {times} times less energy", where=where, times=times)
    return Text("{where}: {times} times as fast", where=where, times=times)


def _summary(ladder: Ladder) -> tuple[Text, ...]:
    if not ladder.best:
        found = [
            _nothing(ladder),
            _waits(ladder),
            _other_pace(ladder),
            *_troubles(ladder),
            *_left_out(ladder),
            _took(ladder),
        ]
        return tuple(each for each in found if each is not None)
    found = [
        _gain(ladder),
        _drift(ladder),
        _kept(ladder),
        _agreement(ladder),
        _prediction(ladder),
        _waits(ladder),
        _other_pace(ladder),
        *_troubles(ladder),
        *_left_out(ladder),
        _took(ladder),
    ]
    return tuple(each for each in found if each is not None)


def _nothing(ladder: Ladder) -> Text:
    step = Seconds(ladder.baseline.step_s)
    ran = [t for t in ladder.trials if t.outcome != "skipped"]
    if not ran:
        return _nothing_tried(ladder, step)
    some = plural("{count} trial", "{count} trials", len(ran))
    if cut_short(ladder):
        return Text(
            "A step takes {step}; nothing won in the time there was ({trials}).",
            step=step,
            trials=some,
        )
    return Text(
        "A step takes {step}; nothing of what was tried makes it better ({trials}). Leave it as "
        "it is.",
        step=step,
        trials=some,
    )


def _nothing_tried(ladder: Ladder, step: Seconds) -> Text:
    """Why there was no trial: stopped, no time, nothing applies, or nothing is expected."""
    under_way = next((t for t in ladder.trials if t.seconds > 0), None)
    if under_way is not None:
        names = titles_of(under_way.added)
        return Text(
            "A step takes {step}; no trial was over. {names}: {why}",
            step=step,
            names=names,
            why=under_way.why,
        )
    if cut_short(ladder):
        return Text("A step takes {step}; the time was over before anything was tried.", step=step)
    if not ladder.trials:
        return Text(
            "A step takes {step}; no change that can be made on this device applies here.",
            step=step,
        )
    return Text(
        "A step takes {step}; no change is expected to gain anything. Leave it as it is.", step=step
    )


def _gain(ladder: Ladder) -> Text:
    last = best_trial(ladder)
    before = ladder.baseline
    interval = ""
    if ladder.low is not None and ladder.high is not None:
        interval = f"{Number(ladder.low)}–{Number(ladder.high)}"
    if last is None or last.measured is None:
        times = Ratio(ladder.speedup) if ladder.speedup else "?"
        return Text("{times} ({interval}, 95 %).", times=times, interval=interval)
    after, after_s = last.measured, best_step_s(ladder) or last.measured.step_s
    old, new = Seconds(before.step_s), Seconds(after_s)
    if ladder.objective == "memory" and before.peak_memory_bytes:
        return Text(
            "A step holds {now} instead of {before}; it takes {new} instead of {old}.",
            now=Bytes(after.peak_memory_bytes or 0),
            before=Bytes(before.peak_memory_bytes),
            new=new,
            old=old,
        )
    factor = Ratio(ladder.speedup) if ladder.speedup else "?"
    values: dict[str, Value] = {"new": new, "old": old, "factor": factor, "interval": interval}
    pace_before, unit = pace(ladder, before.step_s)
    if unit == "s":
        return Text("A step takes {new} instead of {old}: {factor} ({interval}, 95 %).", **values)
    rates = f"{rate_of(pace_before)} → {rate_of(pace(ladder, after_s)[0])} {unit}"
    return Text(
        "A step takes {new} instead of {old} ({rates}): {factor} ({interval}, 95 %).",
        rates=rates,
        **values,
    )


def _drift(ladder: Ladder) -> Text | None:
    """Where single measurements and pairs do not agree: the machine's pace has changed."""
    last = best_trial(ladder)
    after = last.measured if last is not None else None
    if after is None or not ladder.speedup or ladder.objective == "memory":
        return None
    if abs(ladder.baseline.step_s / after.step_s / ladder.speedup - 1) <= _DRIFT:
        return None
    return Text(
        "Measured by itself, a step of the best took {alone}: the machine's pace has changed since "
        "the original was measured. Steps are the original's, divided by gains from pairs that "
        "took turns.",
        alone=Seconds(after.step_s),
    )


def rate_of(value: float) -> Number:
    """Work per second, three digits, thousands apart."""
    return Number(value, ",.0f" if value >= 100 else "")


def _kept(ladder: Ladder) -> Text:
    names = titles_of(ladder.best)
    return Text("Kept: {names}.", names=names)


def _agreement(ladder: Ladder) -> Text | None:
    parity = best_parity(ladder)
    if parity is None:
        return None
    if parity.verdict == "distribution":
        return Text("The original varies from run to run; the results agree within its own spread.")
    if not parity.compared:
        return parity.note
    closest = max(parity.compared, key=lambda c: c.largest / c.tolerance if c.tolerance else 0.0)
    what, off, room = quantity(closest.what), share_of(closest.largest), share_of(closest.tolerance)
    if all(c.largest == 0 for c in parity.compared):
        return Text("Results are the original's, to the last bit.")
    return Text(
        "Results agree with the original's: {what} within {off} ({room} is allowed).",
        what=what,
        off=off,
        room=room,
    )


def _prediction(ladder: Ladder) -> Text | None:
    forecasts = [
        t.forecast for t in ladder.trials if set(t.names) == set(ladder.best) and t.forecast
    ]
    expected = forecasts[-1].speedup if forecasts else None
    if expected is None or ladder.speedup is None:
        return None
    off = expected / ladder.speedup - 1
    values: dict[str, Value] = {"expected": Ratio(expected), "off": Percent(abs(off))}
    if off > 0:
        return Text("Predicted beforehand: {expected}, {off} more than measured.", **values)
    return Text("Predicted beforehand: {expected}, {off} less than measured.", **values)


def _waits(ladder: Ladder) -> Text | None:
    """That the code waits for its data loader, before and after."""
    before = ladder.baseline
    if (before.loader_s or 0.0) < _WAITS * before.step_s:
        return None
    waits, step = Seconds(before.loader_s or 0.0), Seconds(before.step_s)
    best = best_trial(ladder)
    after = best.measured if best is not None else None
    if after is None:
        return Text(
            "Of the {step} that a step took, {waits} were spent waiting for its data loader; how "
            "fast it gives batches is not predicted.",
            step=step,
            waits=waits,
        )
    return Text(
        "Of the {step} that a step took, {waits} were spent waiting for its data loader, after the "
        "changes {left} of {whole}; how fast it gives batches is not predicted.",
        step=step,
        waits=waits,
        left=Seconds(after.loader_s or 0.0),
        whole=Seconds(after.step_s),
    )


def _other_pace(ladder: Ladder) -> Text | None:
    """Where the code as it is does not take what was predicted for it: gains are off, too.

    Nothing is predicted of a loader, so what a step waits for it is no error.
    """
    predicted, whole = predicted_step_s(ladder), ladder.baseline.step_s
    alone = whole - (ladder.baseline.loader_s or 0.0)
    if predicted is None or (alone <= predicted * _OFF and whole * _OFF >= predicted):
        return None
    longer = whole > predicted
    measured = alone if longer else whole
    times = Number(max(measured / predicted, predicted / measured))
    beside = measured < whole
    why = _WRONG if {BENCHED, SAVED} & set(ladder.notes) else _ANOTHER_MACHINE
    return Text(
        "The code as it was takes {measured}, predicted were {predicted} ({times}× {side}): {why}",
        measured=Text("{step} a step beside its loader", step=Seconds(measured))
        if beside
        else Text("{step} a step", step=Seconds(measured)),
        predicted=Seconds(predicted),
        times=times,
        side=Text("less") if longer else Text("more"),
        why=why,
    )


def _left_out(ladder: Ladder) -> tuple[Text, ...]:
    """How many trials the budget did not allow, and how to make them."""
    count = sum(t.outcome == "skipped" and t.purpose != "" for t in ladder.trials)
    if not count:
        return ()
    return (
        plural(
            "There was no time for {count} more trial: give a larger --budget with --resume.",
            "There was no time for {count} more trials: give a larger --budget with --resume.",
            count,
        ),
    )


def _troubles(ladder: Ladder) -> tuple[Text, ...]:
    """What broke, in one sentence."""
    broken = [t for t in failed(ladder) if t.outcome not in ("even", "slower")]
    if not broken:
        return ()
    listed = [joined([titles_of(t.added), OUTCOMES[t.outcome]], ": ") for t in broken]
    return (Text("Refused: {changes}.", changes=joined(listed, "; ")),)


def _took(ladder: Ladder) -> Text:
    ran = sum(t.outcome != "skipped" and t.seconds > 0 for t in ladder.trials)
    return plural(
        "It took {span} and {count} real trial.",
        "It took {span} and {count} real trials.",
        ran,
        span=duration(ladder.seconds),
    )


def _ladder_section(ladder: Ladder) -> Section | None:
    if not rungs(ladder):
        return None
    return Section(Text("The ladder"), (step_bars(ladder), step_table(ladder)))


def _parity_section(ladder: Ladder) -> Section | None:
    parity = best_parity(ladder)
    if parity is None or not parity.compared:
        return None
    return Section(Text("Does it still compute the same?"), (parity_table(parity),))


def _failed_section(ladder: Ladder) -> Section | None:
    blocks: list[Block] = []
    if failed(ladder):
        blocks.append(failed_table(failed(ladder)))
    if untried(ladder):
        blocks.append(untried_table(untried(ladder)))
    if not blocks:
        return None
    return Section(Text("What not to do"), tuple(blocks))


def _trials_section(ladder: Ladder) -> Section | None:
    if not any(t.outcome != "skipped" for t in ladder.trials):
        return None
    return Section(Text("The evidence"), (trial_table(ladder),))


def _patch_section(ladder: Ladder) -> Section | None:
    if not ladder.patch:
        return None
    ran = [t for t in ladder.trials if t.purpose == "patch"]
    blocks: list[Block] = []
    if ran:
        blocks.append(_patch_ran(ran[-1]))
    parts = _patch_parts(ladder)
    if parts is not None:
        blocks.append(Paragraph(parts))
    lines = tuple(
        CodeLine(number, text, None, _tone(text))
        for number, text in enumerate(ladder.patch.splitlines(), start=1)
    )
    blocks.append(Code(Text("Changes of the source"), "diff", lines))
    return Section(Text("The patch"), tuple(blocks))


def _patch_parts(ladder: Ladder) -> Text | None:
    """What of it is plain PyTorch, and what needs gpuscope when it runs."""
    from gpuscope.advice.source.patches import parts_of

    written, applied, helped = parts_of(ladder.patch)
    if not written and not applied:
        return None
    if not applied and not helped:
        return Text("It is plain PyTorch: the patched source does not need gpuscope.")
    plain = titles_of(tuple(n for n in written if n not in helped))
    return sentences(
        Text("Plain PyTorch: {changes}.", changes=plain) if plain else None,
        Text("With functions of gpuscope: {changes}.", changes=titles_of(helped))
        if helped
        else None,
        Text("Made by gs.apply when it runs: {changes}.", changes=titles_of(applied))
        if applied
        else None,
        Text("So gpuscope must be installed where it runs."),
    )


def _patch_ran(trial: Trial) -> Paragraph:
    if trial.outcome in ("kept", "even") and trial.speedup is not None:
        return Paragraph(
            Text(
                "The patched source was run: {speedup}× the original's speed, and its results "
                "agree.",
                speedup=Number(trial.speedup),
            ),
            "key",
        )
    return Paragraph(trial.why, "doubt")


def _tone(line: str) -> Tone:
    if line.startswith("+") and not line.startswith("+++"):
        return "good"
    if line.startswith("-") and not line.startswith("---"):
        return "warning"
    return "plain"
