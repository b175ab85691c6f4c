"""Loads that were recorded: CSV of time, input, output; Azure's CSV; Mooncake's JSONL; a `Serving`.

time,input,output[,priority]     seconds from the start; a header is not needed. One that begins
                                 with time_ms says that they are milliseconds, time_s seconds
TIMESTAMP,ContextTokens,GeneratedTokens         Azure LLM inference traces (dates)
{"timestamp": ms, "input_length": n, "output_length": n, "hash_ids": [...]}     Mooncake
"""

from __future__ import annotations

import csv
import math
import re
from datetime import datetime
from pathlib import Path

import numpy as np

from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.document.typed import MisfitError
from gpuscope.errors import InputFileError, InvalidValueError
from gpuscope.outside.plain import file_bytes, json_of
from gpuscope.program.lengths import MOST_TOKENS
from gpuscope.serving.document import load_serving
from gpuscope.serving.requests import Requests
from gpuscope.serving.result import Serving

_MOONCAKE_BLOCK = 512
"""Tokens of a block of Mooncake's traces (its README)."""

_SLOWEST_GAP_S = 600.0
"""A mean gap beyond this is a trace of milliseconds read as seconds, unless it says otherwise."""

_SLOWEST_WHOLE_GAP_S = 10.0
"""The same of whole numbers: who logs seconds in which nothing happens, logs their parts, too."""

_UNITS = {"ms": 1e-3, "msec": 1e-3, "millis": 1e-3, "milliseconds": 1e-3}
_UNITS |= dict.fromkeys(("s", "sec", "secs", "seconds"), 1.0)
"""Seconds, by the last word of the first column's name."""


def read_trace(path: str | Path) -> Requests:
    """The requests of a recorded load.

    Raises:
        InputFileError: the file is missing, or a line is none of a trace.
        InvalidValueError: nothing in it, unsorted, negative, milliseconds taken for seconds.
    """
    target = Path(path)
    try:
        text = file_bytes(target).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, MisfitError) as error:
        raise InputFileError(
            Text("{path} cannot be read.", path=target), str(error), Text("Check the path.")
        ) from error
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and lines[0].lstrip().startswith("{"):
        if '"gpuscope.serving"' in lines[0][:200]:
            return requests_of(load_serving(target), target.name)
        rows, blocks = _mooncake(target, lines)
        longest_s = math.inf
    else:
        rows, longest_s = _csv(target, lines)
        blocks = []
    urgent = [row[3] for row in rows] if any(row[3] for row in rows) else []
    times = np.array([row[0] for row in rows], np.float64)
    made = Requests(
        arrival_s=times - times.min() if len(times) and times.min() >= 0 else times,
        input_tokens=np.array([row[1] for row in rows], np.int64),
        output_tokens=np.array([row[2] for row in rows], np.int64),
        blocks=np.array([name for one in blocks for name in one], np.int64),
        block_start=np.cumsum([0, *map(len, blocks)]),
        block_tokens=_MOONCAKE_BLOCK if blocks else 0,
        priority=np.array(urgent, np.int64),
        name=target.name,
    )
    mean_s = float(made.arrival_s[-1]) / len(made)
    if mean_s > longest_s:
        raise InvalidValueError(
            Text("{path} has a request every {gap} s.", path=target, gap=Number(mean_s)),
            Text("Its times look like milliseconds; seconds are read."),
            Text("Say which in its first line: time_ms,input,output or time_s,input,output"),
        )
    return made


def requests_of(run: Serving, name: str) -> Requests:
    """The requests of a run, at the times at which they were meant to be sent."""
    served = run.served
    start = np.where(np.isfinite(served.intended_s), served.intended_s, 0.0)
    order = np.argsort(start, kind="stable")
    return Requests(
        arrival_s=start[order] - start.min(),
        input_tokens=np.maximum(served.input_tokens[order], 1),
        output_tokens=np.maximum(served.output_tokens[order], 1),
        name=name,
    )


Row = tuple[float, int, int, int]
"""Seconds, prompt tokens, answer tokens, priority."""


def _csv(path: Path, lines: list[str]) -> tuple[list[Row], float]:
    """The rows, and the longest mean gap, seconds, that their times may be meant to have."""
    rows: list[Row] = []
    unit, whole = 0.0, True
    for number, row in enumerate(csv.reader(lines), 1):
        try:
            urgent = _tokens(row[3]) if len(row) > 3 and row[3].strip() else 0
            time = _seconds(row[0]) * (unit or 1.0)
            rows.append((time, _tokens(row[1]), _tokens(row[2]), urgent))
            whole = whole and row[0].strip().isdigit()
        except (ValueError, IndexError, OverflowError) as error:
            if number == 1:
                unit = _unit(row[0] if row else "")
                continue  # a header
            raise _no_line(path, number) from error
    return rows, math.inf if unit else _SLOWEST_WHOLE_GAP_S if whole else _SLOWEST_GAP_S


def _unit(header: str) -> float:
    """Seconds of the times below it; 0 where it does not say."""
    words = re.findall(r"[a-z]+", header.lower())
    return _UNITS.get(words[-1], 0.0) if len(words) > 1 or words == ["ms"] else 0.0


def _seconds(word: str) -> float:
    try:
        found = float(word)
    except ValueError:
        found = datetime.fromisoformat(word.strip()[:26]).timestamp()
    if not math.isfinite(found):
        raise ValueError(word)
    return found


def _tokens(word: str) -> int:
    found = int(float(word))
    if abs(found) > MOST_TOKENS:
        raise ValueError(word)
    return found


def _mooncake(path: Path, lines: list[str]) -> tuple[list[Row], list[list[int]]]:
    rows: list[Row] = []
    blocks: list[list[int]] = []
    names: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        try:
            found = json_of(line)
            rows.append(
                (
                    float(found["timestamp"]) / 1e3,
                    _tokens(str(found["input_length"])),
                    max(1, _tokens(str(found["output_length"]))),
                    0,
                )
            )
            hashes = found.get("hash_ids", [])
            blocks.append([names.setdefault(str(each), len(names)) for each in list(hashes)])
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise _no_line(path, number) from error
    return rows, blocks


def _no_line(path: Path, number: int) -> InputFileError:
    return InputFileError(
        Text("Line {number} of {path} is no request.", number=number, path=path),
        Text("A line is a time in seconds, prompt tokens and answer tokens."),
        Text("Write: 0.25,1024,256"),
    )
