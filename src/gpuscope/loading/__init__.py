"""Opens what was recorded: traces of one rank or thousands, memory snapshots, saved runs."""

from gpuscope.loading.recordings import load, read_timelines

__all__ = ["load", "read_timelines"]
