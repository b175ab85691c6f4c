"""Real runs: sensors, warm-up and timing, the profiler, and the benches of a machine's ceilings.

`gpuscope.measure` is this package and the public verb at once: importing anything below sets the
package as an attribute of `gpuscope`, so the package itself must answer `gs.measure(build)`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Verb(ModuleType):
    """A package that can be called."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `gpuscope.measure.run.measure`."""
        from gpuscope.measure.run import measure

        return measure(*args, **kwargs)


sys.modules[__name__].__class__ = _Verb
