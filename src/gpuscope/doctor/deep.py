"""What the checks of the active tests share: reading a test's answer, and saying that a device
failed, that others worked on it meanwhile, or that it is slow.

Severity, the same for all of them: a wrong result, a device that fails or hangs is an error; a rate
that is too low is a warning, and only a note where another program was on the device; what could
not be tested is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuscope.doctor.expected import Expected, known, limited
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.types import Finding, Severity
from gpuscope.document.quantities import Number, Percent, Rate
from gpuscope.document.text import Text, capital, extracted, joined, plural, sentences, verbatim
from gpuscope.hardware import Device

Json = Mapping[str, Any]

BUSY_SHARE = 0.05
"""A device that was used more than this before the test is somebody's (as in `gpuscope bench`)."""

_TAKEN = "busy or unavailable"
"""In the runtime's message for a device that another process has to itself."""

_NO_TORCH = ("ModuleNotFoundError", "ImportError")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a test found.

    Attributes:
        check: name of the check that asked.
        known_by: the command that asks again.
        data: the answer; see `gpuscope.doctor.probes.deep_devices`.
    """

    check: str
    known_by: str
    data: Json

    @property
    def devices(self) -> tuple[Json, ...]:
        """Entries of the devices that answered without an error."""
        return tuple(row for row in self.data.get("devices", ()) if not row.get("error"))

    @property
    def failed(self) -> tuple[Json, ...]:
        """Entries of the devices that failed."""
        return tuple(row for row in self.data.get("devices", ()) if row.get("error"))

    def catalogued(self, row: Json) -> Device | None:
        """The catalogue's device of an entry, under its power limit; None for a slice."""
        found = None if row.get("slice") else known(str(row.get("name", "")))
        if found is None:
            return None
        return limited(found, (row.get("before") or {}).get("power_limit_w"))


def known_by(probe: str) -> str:
    """The command that runs a test by itself."""
    return f"python -m gpuscope.doctor.probes.{probe}"


def ask(
    machine: Machine, check: str, probe: str, timeout_s: float, least_devices: int = 1
) -> tuple[Answer | None, list[Finding]]:
    """Run a test and judge whether it ran at all.

    Args:
        machine: to ask.
        check: name of the check.
        probe: name of the test.
        timeout_s: after which its process is ended.
        least_devices: with fewer the test is not begun.

    Returns:
        The answer, None where there is nothing to judge (no device, no PyTorch, or it failed as a
        whole), and what is to be said of that.
    """
    if not has_devices(machine, least_devices):
        return None, []
    data, by = machine.probe(probe, timeout_s=timeout_s), known_by(probe)
    if data is None:
        why = machine.probe_error(probe)
        lack = verbatim(why) if why else Text("this machine was recorded without --deep")
        return None, [not_tested(check, lack, by)]
    if data.get("hung"):
        stage = stage_text(data["hung"], data.get("hung_after_s"))
        if check == "deep_host":  # a busy host is slow, no device is to blame
            return None, [not_tested(check, Text("it took too long: {stage}", stage=stage), by)]
        return None, [_hung(check, stage, by)]
    error = data.get("error")
    if error:
        missing = str(error).startswith(_NO_TORCH)  # said once, by the check of the host
        quiet = missing and check != "deep_host"
        return None, [] if quiet else [not_tested(check, verbatim(error), by)]
    return Answer(check, by, data), []


def has_devices(machine: Machine, least: int) -> bool:
    """Whether PyTorch sees as many; where it was not asked, the test itself will say."""
    if not least:
        return True
    facts = machine.probe("torch_libraries")
    if facts is None or facts.get("mps_available"):
        return True
    return not facts.get("installed", True) or len(facts.get("devices") or ()) >= least


def stage_text(sent: str | Json, after_s: float | None = None) -> Text:
    """What a test was doing, as it sent it: a template and its values, or just words."""
    if isinstance(sent, str):
        return verbatim(sent)
    stage = extracted(sent["template"], **sent["values"])
    if after_s is None:
        return stage
    return Text("{stage} ({seconds} s)", stage=stage, seconds=Number(after_s, ".0f"))


def not_tested(check: str, why: Text, by: str, device: int | None = None) -> Finding:
    """A test that could not be made."""
    name = check.removeprefix("deep_").replace("_", " ")
    return Finding(
        check,
        "unknown",
        Text("Not tested: {name}", name=name),
        Text("{why}.", why=verbatim(why.rstrip(".")) if why.endswith(".") else why),
        known_by=by,
        device=device,
    )


def _hung(check: str, stage: Text, by: str) -> Finding:
    return Finding(
        check,
        "error",
        Text("A device does not finish its work"),
        Text("No answer while testing: {stage}.", stage=stage),
        Text("Programs on it hang."),
        Text(
            "Look for Xid messages in the kernel log; end programs that hold the device; reset it "
            "or restart the machine, then test again."
        ),
        ("sudo dmesg -T | grep -i -E 'xid|nvrm|amdgpu'", "nvidia-smi"),
        by,
    )


def failures(answer: Answer) -> Iterator[Finding]:
    """A finding for each device that failed in a test."""
    for row in answer.failed:
        index, text = int(row["index"]), str(row["error"])
        if row.get("no_memory"):
            why = Text("too little device memory is free (another program holds it)")
            yield not_tested(answer.check, why, answer.known_by, index)
            continue
        if not row.get("lost") or _TAKEN in text:  # the test's fault, or somebody's right
            yield not_tested(answer.check, verbatim(text), answer.known_by, index)
            continue
        yield Finding(
            answer.check,
            "error",
            Text("Device {index} fails at work", index=index),
            Text("{error}.", error=text.rstrip(".")),
            Text("Programs on it will fail in the same way."),
            Text(
                "Read what the error means and what the driver logged; reset the device or restart "
                "the machine, then test again. If it stays, have the device replaced."
            ),
            (
                "gpuscope explain error '" + text.replace("'", "")[:120] + "'",
                "sudo dmesg -T | grep -i -E 'xid|nvrm|amdgpu'",
            ),
            answer.known_by,
            index,
        )


def busy(rows: Iterable[Json]) -> frozenset[int]:
    """Devices that somebody else used just before the test."""
    found = set()
    for row in rows:
        used = (row.get("before") or {}).get("utilisation")
        if used is not None and used > BUSY_SHARE:
            found.add(int(row["index"]))
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Slow:
    """A rate that is too low.

    Attributes:
        index: of the device.
        what: what was measured ("bf16 products").
        rate: measured.
        unit: of the rate ("FLOP/s", "B/s").
        expected: what the device should reach; None if only the neighbours show it.
        of_usual: share of what the other devices reach; None if there is no such comparison.
    """

    index: int
    what: Text
    rate: float
    unit: str
    expected: Expected | None = None
    of_usual: float | None = None


def judge(
    what: Text,
    unit: str,
    rates: Mapping[int, float],
    expected: Mapping[int, Expected | None],
    outliers: Mapping[int, float],
) -> Iterator[Slow]:
    """Find the devices that are too slow at one thing, by their model or by their neighbours.

    Args:
        what: the thing.
        unit: of the rates.
        rates: measured, by device.
        expected: by device.
        outliers: those that stand out, with their share of the usual rate.
    """
    for index, measured in rates.items():
        should = expected.get(index)
        below = should is not None and should.is_slow(measured)
        if below or index in outliers:
            yield Slow(index, what, measured, unit, should, outliers.get(index))


def slow_finding(
    answer: Answer,
    slow: Sequence[Slow],
    why: Text,
    fix: Text,
    commands: tuple[str, ...],
    values: Mapping[str, float],
) -> Finding:
    """Say that one device is slow at one or several things.

    Args:
        answer: of the test.
        slow: at least one, all of the same device.
        why, fix, commands: see `Finding`.
        values: figures behind it.
    """
    index = slow[0].index
    disturbed = index in busy(answer.devices)
    severity: Severity = "note" if disturbed else "warning"
    alone = all(each.of_usual is not None for each in slow)
    parts = [_sentence(each) for each in slow]
    found = Text("{parts}.", parts=_begun(joined(parts, "; ")))
    if disturbed:
        found = sentences(
            found, Text("Another program used the device just before: test again when it is idle.")
        )
    things = slow[0].what
    if len(slow) > 1:
        things = Text("{things} and {more} more", things=things, more=len(slow) - 1, all=len(slow))
    title = (
        Text("Device {index} is slow, the others are not: {things}", index=index, things=things)
        if alone
        else Text("Device {index} is slow: {things}", index=index, things=things)
    )
    return Finding(
        answer.check,
        severity,
        title,
        found,
        why,
        fix,
        commands,
        answer.known_by,
        index,
        dict(values),
    )


def _sentence(slow: Slow) -> Text:
    evidence = Text("{what}: {rate}", what=slow.what, rate=Rate(slow.rate, slow.unit))
    if slow.of_usual is not None:
        share = Percent(slow.of_usual)
        evidence = Text(
            "{told}, {share} of what the other devices reach", told=evidence, share=share
        )
    if slow.expected is not None:
        calibrated = slow.expected.origin == "calibrated"
        evidence = Text(
            "{told}; this kind of device reaches about {rate} ({origin})",
            told=evidence,
            rate=Rate(slow.expected.rate, slow.unit),
            origin=Text("calibrated") if calibrated else Text("estimated"),
        )
    return evidence


def _begun(sentence: Text) -> Text:
    """The sentence with a capital, unless it begins with a name such as "bf16"."""
    return capital(sentence) if sentence.split(maxsplit=1)[0].isalpha() else sentence


def span(rates: Iterable[float], unit: str) -> str:
    """The slowest and the fastest of some rates: "652–668 TFLOP/s"."""
    ordered = sorted(rates)
    low, high = Rate(ordered[0], unit), Rate(ordered[-1], unit)
    number, _, of = str(low).partition(" ")
    if str(low) == str(high):
        return str(low)
    return f"{number}–{high}" if str(high).endswith(f" {of}") else f"{low} – {high}"


def with_share(
    evidence: Text | str, rates: Mapping[int, float], expected: Mapping[int, Expected | None]
) -> tuple[Text | str, bool]:
    """Rates with the slowest device's share of what its model says, "668 TFLOP/s (97 %)", and
    whether there is such a share."""
    shares = [
        measured / should.rate
        for index, measured in rates.items()
        if (should := expected.get(index)) is not None
    ]
    if not shares:
        return evidence, False
    return Text("{told} ({share})", told=evidence, share=Percent(min(shares))), True


_REACHES = Text("reaches")


def against(shown: bool, rate_of: Text = _REACHES) -> Text:
    """What a list of rates with their shares says of these, at its end.

    Args:
        shown: some rates have a share; none has where the catalogue does not know the device.
        rate_of: which of the model's rates: what a device "reaches".
    """
    if shown:
        return Text("; in brackets: against what this kind of device {rate_of}.", rate_of=rate_of)
    return Text(". The catalogue has no figures of this device to compare with.")


def bits(count: object) -> Text:
    """ "1 bit differs", "3 bits differ"."""
    if not isinstance(count, int):
        return Text("{count} bits differ", count=str(count))
    return plural("{count} bit differs", "{count} bits differ", count)
