"""vLLM's log of iterations (`--enable-logging-iteration-details`), read back."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError
from gpuscope.serving.result import Iterations

_LINE = re.compile(
    r"(?:Engine (?P<engine>\d{1,6}): )?Iteration\((?P<index>\d{1,12})\): "
    r"(?P<context>\d{1,9}) context requests, (?P<prefill>\d{1,9}) context tokens, "
    r"(?P<decode>\d{1,9}) generation requests, (?P<tokens>\d{1,9}) generation tokens, "
    r"iteration elapsed time: (?P<ms>\d{1,9}(?:\.\d{1,6})?) ms"
)

MOST_BYTES = 1 << 30


def read_iterations(path: str | Path) -> Iterations:
    """The iterations that a log tells of; those of dummy runs are among them.

    Times of their start are not in the log's lines to the millisecond: an iteration is taken to
    begin where the one before it ended.

    Raises:
        InputFileError: the file cannot be read, or has no such line.
    """
    rows: list[tuple[int, int, float, int]] = []
    try:
        if Path(path).stat().st_size > MOST_BYTES:
            raise OSError(0, "it is larger than 1 GiB")
        with Path(path).open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                found = _LINE.search(line[:4096])
                if found:
                    engine = int(found["engine"] or 0)
                    seconds = float(found["ms"]) / 1e3
                    rows.append((int(found["prefill"]), int(found["decode"]), seconds, engine))
    except OSError as error:
        raise InputFileError(
            Text("{path} cannot be read.", path=path),
            str(error.strerror or error),
            Text("Give the file that the server's log goes to."),
        ) from error
    if not rows:
        raise InputFileError(
            Text("{path} tells of no iteration.", path=path),
            "",
            Text("Start the server with: vllm serve ... --enable-logging-iteration-details"),
        )
    prefill, decode, took_s, engines = (np.array(column) for column in zip(*rows, strict=True))
    return Iterations(
        start_s=_starts(took_s, engines),
        steps=np.ones(len(rows), np.int64),
        device_s=took_s,
        prefill_tokens=prefill.astype(np.int64),
        decode_sequences=decode.astype(np.int64),
        replica=engines.astype(np.int64),
    )


def _starts(seconds: np.ndarray, engines: np.ndarray) -> np.ndarray:
    starts = np.zeros(len(seconds))
    for engine in np.unique(engines):
        rows = engines == engine
        ends = np.cumsum(seconds[rows])
        starts[rows] = ends - seconds[rows]
    return starts
