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
from gpuscope.explain.numbers import percent, rate
from gpuscope.explain.types import Words
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
        why = machine.probe_error(probe) or "this machine was recorded without --deep"
        return None, [not_tested(check, why, by)]
    if data.get("hung"):
        stage = str(data["hung"])
        if check == "deep_host":  # a busy host is slow, no device is to blame
            return None, [not_tested(check, f"it took too long: {stage}", by)]
        return None, [_hung(check, stage, by)]
    error = data.get("error")
    if error:
        missing = str(error).startswith(_NO_TORCH)  # said once, by the check of the host
        quiet = missing and check != "deep_host"
        return None, [] if quiet else [not_tested(check, str(error), by)]
    return Answer(check, by, data), []


def has_devices(machine: Machine, least: int) -> bool:
    """Whether PyTorch sees as many; where it was not asked, the test itself will say."""
    if not least:
        return True
    facts = machine.probe("torch_libraries")
    if facts is None or facts.get("mps_available"):
        return True
    return not facts.get("installed", True) or len(facts.get("devices") or ()) >= least


def not_tested(check: str, why: str, by: str, device: int | None = None) -> Finding:
    """A test that could not be made."""
    name = check.removeprefix("deep_").replace("_", " ")
    return Finding(
        check, "unknown", Words(f"Not tested: {name}", f"未能测试：{name}"),
        Words(f"{why.rstrip('.')}.", f"{why.rstrip('.')}。"), known_by=by, device=device,
    )  # fmt: skip


def _hung(check: str, stage: str, by: str) -> Finding:
    return Finding(
        check, "error", Words("A device does not finish its work", "有设备无法完成工作"),
        Words(f"No answer while testing: {stage}.", f"测试时没有响应：{stage}。"),
        Words("Programs on it hang.", "其上的程序会挂起。"),
        Words(
            "Look for Xid messages in the kernel log; end programs that hold the device; reset it "
            "or restart the machine, then test again.",
            "查看内核日志中的 Xid 信息；结束占用设备的程序；重置设备或重启机器后再测。",
        ),
        ("sudo dmesg -T | grep -i -E 'xid|nvrm|amdgpu'", "nvidia-smi"), by,
    )  # fmt: skip


def failures(answer: Answer) -> Iterator[Finding]:
    """A finding for each device that failed in a test."""
    for row in answer.failed:
        index, text = int(row["index"]), str(row["error"])
        if row.get("no_memory"):
            why = "too little device memory is free (another program holds it)"
            yield not_tested(answer.check, why, answer.known_by, index)
            continue
        if not row.get("lost") or _TAKEN in text:  # the test's fault, or somebody's right
            yield not_tested(answer.check, text, answer.known_by, index)
            continue
        yield Finding(
            answer.check, "error",
            Words(f"Device {index} fails at work", f"设备 {index} 在工作中出错"),
            Words(f"{text.rstrip('.')}.", f"{text.rstrip('.')}。"),
            Words("Programs on it will fail in the same way.", "其上的程序也会这样失败。"),
            Words(
                "Read what the error means and what the driver logged; reset the device or restart "
                "the machine, then test again. If it stays, have the device replaced.",
                "查明该错误的含义与驱动日志；重置设备或重启机器后再测。若仍然出错，请更换设备。",
            ),
            ("gpuscope explain error '" + text.replace("'", "")[:120] + "'",
             "sudo dmesg -T | grep -i -E 'xid|nvrm|amdgpu'"),
            answer.known_by, index,
        )  # fmt: skip


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
    what: Words
    rate: float
    unit: str
    expected: Expected | None = None
    of_usual: float | None = None


def judge(
    what: Words, unit: str, rates: Mapping[int, float], expected: Mapping[int, Expected | None],
    outliers: Mapping[int, float],
) -> Iterator[Slow]:  # fmt: skip
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
    answer: Answer, slow: Sequence[Slow], why: Words, fix: Words, commands: tuple[str, ...],
    values: Mapping[str, float],
) -> Finding:  # fmt: skip
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
    en, zh = capital("; ".join(p.en for p in parts)) + ".", "；".join(p.zh for p in parts) + "。"
    if disturbed:
        en += " Another program used the device just before: test again when it is idle."
        zh += "测试前设备正被其他程序使用：请在空闲时重测。"
    things = slow[0].what
    if len(slow) > 1:
        things = Words(f"{things.en} and {len(slow) - 1} more", f"{things.zh}等 {len(slow)} 项")
    title = Words(
        f"Device {index} is slow{', the others are not' if alone else ''}: {things.en}",
        f"设备 {index} 偏慢{'，其余设备正常' if alone else ''}：{things.zh}",
    )
    return Finding(
        answer.check, severity, title, Words(en, zh), why, fix, commands, answer.known_by, index,
        dict(values),
    )  # fmt: skip


def _sentence(slow: Slow) -> Words:
    got = rate(slow.rate, slow.unit)
    en, zh = f"{slow.what.en}: {got}", f"{slow.what.zh}：{got}"
    if slow.of_usual is not None:
        share = percent(slow.of_usual)
        en, zh = f"{en}, {share} of what the other devices reach", f"{zh}，为其他设备的 {share}"
    if slow.expected is not None:
        should = rate(slow.expected.rate, slow.unit)
        origin_zh = "校准值" if slow.expected.origin == "calibrated" else "估计值"
        en = f"{en}; this kind of device reaches about {should} ({slow.expected.origin})"
        zh = f"{zh}；同型号设备约为 {should}（{origin_zh}）"
    return Words(en, zh)


def capital(sentence: str) -> str:
    """The sentence with a capital, unless it begins with a name such as "bf16"."""
    first = sentence.split(maxsplit=1)[0]
    return sentence[:1].upper() + sentence[1:] if first.isalpha() else sentence


def span(rates: Iterable[float], unit: str) -> str:
    """The slowest and the fastest of some rates: "652–668 TFLOP/s"."""
    ordered = sorted(rates)
    low, high = rate(ordered[0], unit), rate(ordered[-1], unit)
    if low == high:
        return low
    number, _, of = low.partition(" ")
    return f"{number}–{high}" if high.endswith(f" {of}") else f"{low} – {high}"


def share_text(rates: Mapping[int, float], expected: Mapping[int, Expected | None]) -> str:
    """The slowest device's share of what its model says: "97 %"; "" where there is none."""
    shares = [
        measured / should.rate
        for index, measured in rates.items()
        if (should := expected.get(index)) is not None
    ]
    return percent(min(shares)) if shares else ""


_REACHES = Words("reaches", "应达速率")


def against(shown: bool, rate_of: Words = _REACHES) -> Words:
    """What a list of rates with their shares says of these, at its end.

    Args:
        shown: some rates have a share; none has where the catalogue does not know the device.
        rate_of: which of the model's rates: what a device "reaches".
    """
    if shown:
        return Words(
            f"; in brackets: against what this kind of device {rate_of.en}.",
            f"；括号内为与同型号设备{rate_of.zh}之比。",
        )
    return Words(
        ". The catalogue has no figures of this device to compare with.",
        "。设备目录中没有可对照的数据。",
    )


def bits(count: object) -> Words:
    """ "1 bit differs", "3 bits differ"."""
    en = "1 bit differs" if count == 1 else f"{count} bits differ"
    return Words(en, f"{count} 个比特不同")


def plural(count: int, thing: str = "device") -> str:
    """ "1 device", "8 devices"."""
    return f"{count} {thing}{'' if count == 1 else 's'}"
