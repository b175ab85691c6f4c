"""Errors of cuBLAS, cuDNN and their AMD likes: what the status says (`libraries.toml`)."""

from __future__ import annotations

import re

from gpuscope.document.blocks import Fact
from gpuscope.document.text import Text, extracted
from gpuscope.explanation.errors.known import advice, read_table
from gpuscope.explanation.errors.log import Log
from gpuscope.explanation.errors.types import Diagnosis

_STATUS = re.compile(
    r"(?P<library>CUBLAS|CUDNN|CUSPARSE|CUSOLVER|ROCBLAS|rocblas|HIPBLAS|MIOPEN|miopen)"
    r"_?(?:STATUS_|status|Status)_?(?P<status>[A-Za-z_]+)"
)
_FILE = read_table("libraries")


def read_library(log: Log) -> Diagnosis | None:
    """Read the first status of a library that is not success."""
    for found in _STATUS.finditer(log.text):
        status = found["status"].upper().replace("_", "")
        if "SUCCESS" not in status:
            return _said(log, found, status)
    return None


def _said(log: Log, found: re.Match[str], status: str) -> Diagnosis:
    entry = next(each for each in _FILE["status"] if status.startswith(_bare(each["match"])))
    call = re.search(rf"{re.escape(found[0])}\w*,? when calling [`'](?P<call>\w+)", log.text)
    name = found["library"].upper().replace("CU", "cu", 1)
    facts = [Fact(Text("status"), found[0])]
    if call:
        facts.append(Fact(Text("the call"), call["call"]))
    return Diagnosis(
        f"{found['library'].lower()}_error",
        Text("{name} refused a call", name=name),
        extracted(entry["cause"]),
        entry["certainty"],
        advice(entry["fix"], _FILE),
        log.line_of(found),
        35,
        tuple(facts),
        sources=("NVIDIA cuBLAS and cuDNN API references, status codes.",),
    )


def _bare(status: str) -> str:
    return status.replace("_", "")
