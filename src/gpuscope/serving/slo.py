"""What is promised to users: "ttft<500ms,tpot<30ms"."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError

METRICS = ("ttft", "tpot", "e2e")

_ONE = re.compile(r"^(ttft|tpot|e2e)\s*<=?\s*([0-9]*\.?[0-9]+)\s*(ms|us|s)$")
_UNIT_S = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


@dataclass(frozen=True, slots=True)
class Limit:
    """No request may take longer.

    Attributes:
        metric: "ttft", "tpot" or "e2e".
        seconds: the most.
    """

    metric: str
    seconds: float

    def __str__(self) -> str:
        """As it is typed."""
        return f"{self.metric}<{self.seconds * 1e3:.6g}ms"


def parse_slo(text: str) -> tuple[Limit, ...]:
    """Read limits separated by commas.

    Raises:
        InvalidValueError: something else; a number without a unit too (seconds? milliseconds?); two
            limits of one metric.
    """
    found = []
    said: dict[str, str] = {}
    for part in text.lower().replace(" ", "").split(","):
        match = _ONE.match(part)
        if match is None or float(match[2]) <= 0:
            raise InvalidValueError(
                Text("'{part}' is no limit.", part=part),
                Text("A limit is ttft, tpot or e2e, '<', and a time with its unit."),
                Text('Type: --slo "ttft<500ms,tpot<30ms"'),
            )
        if match[1] in said:
            raise InvalidValueError(
                Text("{first} and {second} limit the same.", first=said[match[1]], second=part),
                "",
                Text("Leave one of them out."),
            )
        said[match[1]] = part
        found.append(Limit(match[1], float(match[2]) * _UNIT_S[match[3]]))
    return tuple(found)
