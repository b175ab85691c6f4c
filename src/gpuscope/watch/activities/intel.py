"""Intel: the kernel's files, which the sensor reads, tell no activity of units.

Level Zero's metrics (`zetMetricStreamer...`) would; they need the oneAPI loader and the right to
observe the device (`/proc/sys/dev/i915/perf_stream_paranoid`), and are not read here.
"""

from __future__ import annotations

from gpuscope.document.text import Text
from gpuscope.measurement.sensors.types import SensorInfo
from gpuscope.watch.activity import ActivityReader, NoActivity, activity_vendor


@activity_vendor("intel")
def open_intel(info: SensorInfo) -> ActivityReader | None:
    """Return a reader that says why there is nothing to read."""
    return NoActivity(Text("Intel's kernel files do not tell what the execution units do."))
