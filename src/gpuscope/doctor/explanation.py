"""A diagnosis as an explanation: its page, like that of any other topic."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import cast

from gpuscope.doctor.machine import Machine
from gpuscope.doctor.types import Diagnosis, Finding, Severity
from gpuscope.explain.types import (
    Block,
    Cell,
    Diagram,
    Explanation,
    Fact,
    Facts,
    Paragraph,
    Section,
    Tone,
    Words,
)

_NAMES: dict[Severity, Words] = {
    "error": Words("error", "错误"),
    "warning": Words("warning", "警告"),
    "unknown": Words("unknown", "未知"),
    "note": Words("note", "提示"),
    "ok": Words("ok", "正常"),
}

_LABELS = {
    "host": Words("host", "主机"),
    "system": Words("system", "系统"),
    "kernel": Words("kernel", "内核"),
    "gpus": Words("devices", "设备"),
    "driver": Words("driver", "驱动"),
    "python": Words("Python", "Python"),
    "torch": Words("PyTorch", "PyTorch"),
    "container": Words("container", "容器"),
}


def explain_diagnosis(diagnosis: Diagnosis, machine: Machine) -> Explanation:
    """Return the explanation that shows a diagnosis.

    Args:
        diagnosis: what the checks found.
        machine: asked for its topology only.
    """
    bad = [f for f in diagnosis.findings if f.severity in ("error", "warning")]
    sections = [_machine(diagnosis, machine)]
    sections += [_section(finding) for finding in bad]
    if diagnosis.deep:
        from gpuscope.doctor.deep_figures import deep_section

        figures = deep_section(diagnosis, machine)
        sections += [figures] if figures is not None else []
    for severity, title in (
        ("note", Words("Worth knowing", "值得知道")),
        ("unknown", Words("Could not be read", "无法读取")),
        ("ok", Words("As it should be", "正常")),
    ):
        some = [f for f in diagnosis.findings if f.severity == severity]
        if some:
            sections.append(Section(title, (_list(some),)))
    host = diagnosis.machine.get("host", "")
    return Explanation(
        topic="doctor",
        title=Words(
            f"Is {host or 'this machine'} all right?",
            f"{host} 是否正常？" if host else "这台机器是否正常？",
        ),
        summary=(_verdict(diagnosis), *(finding.title for finding in bad[:4])),
        sections=tuple(sections),
        commands=tuple(dict.fromkeys(c for finding in bad for c in finding.commands)),
        key="doctor",
    )


def _verdict(diagnosis: Diagnosis) -> Words:
    errors = sum(f.severity == "error" for f in diagnosis.findings)
    warnings = sum(f.severity == "warning" for f in diagnosis.findings)
    checks = len(diagnosis.checks)
    if not errors and not warnings:
        return Words(
            f"This machine is all right: {checks} checks found nothing to mend.",
            f"这台机器一切正常：{checks} 项检查没有发现需要处理的问题。",
        )
    plural = "" if errors == 1 else "s"
    return Words(
        f"{errors} error{plural} and {warnings} warning{'' if warnings == 1 else 's'} "
        f"in {checks} checks.",
        f"{checks} 项检查发现 {errors} 个错误、{warnings} 个警告。",
    )


def _machine(diagnosis: Diagnosis, machine: Machine) -> Section:
    rows = tuple(
        Fact(_LABELS.get(name, Words(name, name)), value)
        for name, value in diagnosis.machine.items()
    )
    blocks: list[Block] = [Facts(rows)] if rows else []
    diagram = _diagram(machine)
    if diagram is not None:
        blocks.append(diagram)
    if not blocks:
        text = Words("The machine does not say what it is.", "这台机器没有提供自身信息。")
        blocks.append(Paragraph(text))
    return Section(Words("The machine", "这台机器"), tuple(blocks))


def _diagram(machine: Machine) -> Diagram | None:
    """The picture of the topology, where there is one to draw."""
    if importlib.util.find_spec("gpuscope.doctor.topology") is None:
        return None
    module = importlib.import_module("gpuscope.doctor.topology")
    draw = cast("Callable[[Machine], Diagram | None]", module.topology_diagram)
    return draw(machine)


def _section(finding: Finding) -> Section:
    tone: Tone = "warning" if finding.severity == "error" else "plain"
    blocks: list[Block] = [Paragraph(finding.found, tone)]
    if finding.why is not None:
        blocks.append(Paragraph(finding.why))
    if finding.fix is not None:
        blocks.append(Paragraph(finding.fix, "key"))
    facts = [
        Fact(Words(name, name), _cell(value), _unit(name))
        for name, value in finding.values.items()
        if value is not None
    ]
    facts += [Fact(Words("what to type", "命令"), command) for command in finding.commands]
    if finding.known_by:
        facts.append(Fact(Words("known by", "依据"), finding.known_by))
    if facts:
        blocks.append(Facts(tuple(facts)))
    name = _NAMES[finding.severity]
    title = finding.title
    return Section(Words(f"{name.en}: {title.en}", f"{name.zh}：{title.zh}"), tuple(blocks))


def _list(findings: list[Finding]) -> Facts:
    """One row a finding: the check, what it says, and small what it read and where."""
    rows = []
    for finding in findings:
        name = finding.check if finding.device is None else f"{finding.check}[{finding.device}]"
        more = [words for words in (finding.found, finding.fix) if words is not None and words.en]
        by = f" ({finding.known_by})" if finding.known_by else ""
        note = Words(
            " ".join(words.en for words in more) + by, "".join(words.zh for words in more) + by
        )
        rows.append(Fact(Words(name, name), finding.title, note=note if note.en else None))
    return Facts(tuple(rows))


_UNITS = {
    "_bytes_per_s": "bytes/s", "_bytes": "bytes", "_flops_per_s": "flop/s", "_hz": "Hz",
    "_share": "share", "_w": "W", "_s": "s",
}  # fmt: skip


def _unit(name: str) -> str:
    """The unit that a figure's name ends with."""
    return next((unit for end, unit in _UNITS.items() if f"_{name}".endswith(end)), "")


def _cell(value: float | int | str | bool | None) -> Cell:
    if isinstance(value, bool):
        return Words("yes", "是") if value else Words("no", "否")
    return value
