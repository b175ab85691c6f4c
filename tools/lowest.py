"""The lowest versions that pyproject.toml allows, as constraints for pip.

    python tools/lowest.py [EXTRA ...]     print "name==version" of gpuscope and of these extras

`make test-lowest` installs them and runs the tests on them.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)>=(?P<lowest>[\w.]+)")


def lowest(extras: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield "name==version" for each requirement.

    Args:
        extras: of which, besides gpuscope's own.

    Raises:
        KeyError: there is no such extra.
        ValueError: a requirement states no lowest version.
    """
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    listed = list(project["dependencies"])
    for extra in extras:
        listed += project["optional-dependencies"][extra]
    for each in dict.fromkeys(listed):
        found = _REQUIREMENT.match(each)
        if found is None:
            raise ValueError(f"{each}: no lowest version")
        yield f"{found['name']}=={found['lowest']}"


if __name__ == "__main__":
    print(*lowest(tuple(sys.argv[1:])), sep="\n")
