"""Findings: what is worth knowing about a run, each with its evidence and its largest gain."""

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding, finding_kinds, findings

__all__ = ["Facts", "finding", "finding_kinds", "findings"]
