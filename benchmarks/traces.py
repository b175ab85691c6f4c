"""Time and memory of reading traces and saying where the time went, beside HolisticTraceAnalysis.

Both run as whole processes, from the file to the printed answer, on the same files in the same
run; the best of `--repeats` counts. `command` is what a user types, `gpuscope analyze FILE`, with
all that it says; `gpuscope` and `unions` are parts of it, for scripts that ask for no more. `json`
is Python's own `json.loads` of the same text. Where a large file is parsed by several processes,
processor time is that of all and peak memory that of the largest one (the others need some 0.1 GB
each). The files are a real trace repeated to 271 MB and 1,080,460 events (times and ids moved on,
so that it is one long recording), the same to about 1 GB of plain JSON, and smaller real ones.
HolisticTraceAnalysis 0.6 is published as `traceinsight`; it is installed into an environment of
its own in the temporary folder.

Run: python benchmarks/traces.py --traces FOLDER [--skip-hta] [--quick]
where FOLDER holds `hta/df_index_resolver/df_index_resolver.json.gz` of HolisticTraceAnalysis'
`tests/data`. Writes benchmarks/results/traces.json.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HTA = "traceinsight==0.6.0"
SOURCE = "hta/df_index_resolver/df_index_resolver.json.gz"
SMALLER = (SOURCE, "hta/trace_diff_control/control.json.gz")
RESULTS = Path(__file__).parent / "results" / "traces.json"

COMMAND = (sys.executable, "-P", "-m", "gpuscope", "analyze")

PARSED = """
import gzip, json, sys
opened = gzip.open if sys.argv[1].endswith(".gz") else open
with opened(sys.argv[1], "rb") as file:
    json.loads(file.read())
"""

OURS = """
import sys
import numpy as np
from gpuscope.analysis.time_classes import rank_times
from gpuscope.timeline.kineto import read_trace
timeline = read_trace(sys.argv[1])
print(timeline.sources[0].events_read, rank_times(timeline))
events = timeline.events
work = events.kind < 4
sums = np.bincount(events.name[work], events.duration_ns[work], len(timeline.names))
print([(timeline.names[n][:60], sums[n]) for n in np.argsort(-sums)[:10]])
"""

UNIONS = """
import sys
import numpy as np
from gpuscope.timeline.intervals import union_length
from gpuscope.timeline.kineto import read_trace
timeline = read_trace(sys.argv[1])
events = timeline.events
def union(*kinds):
    rows = np.isin(events.kind, kinds)
    return union_length(events.start_ns[rows], events.end_ns[rows]) * 1e-9
print(timeline.sources[0].events_read, union(0, 1, 2, 3), union(0), union(1), union(2, 3))
"""

THEIRS = """
import sys
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
print(analysis.get_temporal_breakdown(visualize=False))
print(analysis.get_comm_comp_overlap(visualize=False))
print(analysis.get_idle_time_breakdown(visualize=False))
print(analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=10))
"""


def tile(source: Path, target: Path, copies: int) -> None:
    """Write `copies` of a trace's events one after another, as one recording."""
    raw = gzip.decompress(source.read_bytes())
    begin = raw.index(b"[", raw.index(b'"traceEvents"')) + 1
    end = raw.rindex(b"]")
    body = raw[begin:end].strip()
    starts = [int(ts) for ts in re.findall(rb'"ts": (\d+)', body)]
    last = max(starts)
    # Metadata may carry a time of 0; the recording itself lies near its end.
    span = last - min(t for t in starts if t > last // 2) + 5_000_000
    opened = gzip.open(target, "wb", 6) if target.suffix == ".gz" else target.open("wb")  # noqa: SIM115
    with opened as file:
        file.write(raw[:begin])
        for n in range(copies):
            file.write(b",\n" if n else b"\n")
            file.write(_moved(body, n * span, n * 10_000_000))
        file.write(raw[end:])


def apart(source: Path, target: Path, copies: int) -> None:
    """`tile` in a process of its own: a child's peak memory counts what its parent held."""
    command = [sys.executable, __file__, "--tile", str(source), str(target), str(copies)]
    subprocess.run(command, check=True)


def _moved(body: bytes, time_us: int, number: int) -> bytes:
    body = re.sub(rb'"ts": (\d+)', lambda m: b'"ts": %d' % (int(m[1]) + time_us), body)
    return re.sub(
        rb'"(correlation|[eE]xternal id|id)": (\d+)',
        lambda m: b'"%s": %d' % (m[1], int(m[2]) + number),
        body,
    )


def run(command: Sequence[str], repeats: int) -> dict[str, Any]:
    """Best wall and CPU seconds, and most memory, of a command over some runs."""
    walls, cpus, peaks = [], [], []
    for _ in range(repeats):
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert process.stderr is not None
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            return {"failed": errors.decode(errors="replace").strip().splitlines()[-1:]}
        walls.append(time.perf_counter() - begin)
        cpus.append(usage.ru_utime + usage.ru_stime)
        peaks.append(usage.ru_maxrss * 1024)
    return {
        "wall_s": round(min(walls), 3),
        "wall_all_s": [round(wall, 3) for wall in walls],
        "cpu_s": round(min(cpus), 3),
        "peak_bytes": max(peaks),
    }


def install(folder: Path) -> Path:
    """An environment with HolisticTraceAnalysis; returns its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", HTA], check=True)
    return python


def measure(name: str, path: Path, theirs: Path | None, repeats: int) -> dict[str, Any]:
    """One file, both programs."""
    row: dict[str, Any] = {"file": name, "nbytes": path.stat().st_size}
    counted = subprocess.run(
        [sys.executable, "-c", OURS, str(path)], capture_output=True, text=True, check=True
    )
    row["complete_events"] = int(counted.stdout.split(maxsplit=1)[0])
    row["command"] = run([*COMMAND, str(path), "--quiet"], repeats)
    row["json"] = run([sys.executable, "-c", PARSED, str(path)], repeats)
    row["unions"] = run([sys.executable, "-c", UNIONS, str(path)], repeats)
    row["gpuscope"] = run([sys.executable, "-c", OURS, str(path)], repeats)
    if theirs is not None:
        row["hta"] = run([str(theirs), "-c", THEIRS, str(path)], max(1, repeats - 1))
        if "wall_s" in row["hta"]:
            for ours in ("command", "unions", "gpuscope"):
                row[f"{ours}_times_faster"] = round(row["hta"]["wall_s"] / row[ours]["wall_s"], 1)
                row[f"{ours}_times_less_cpu"] = round(row["hta"]["cpu_s"] / row[ours]["cpu_s"], 1)
                share = row[ours]["peak_bytes"] / row["hta"]["peak_bytes"]
                row[f"{ours}_memory_share"] = round(share, 2)
    print(json.dumps(row), flush=True)
    return row


def main() -> None:
    if sys.argv[1:2] == ["--tile"]:
        tile(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--hta", type=Path, help="a Python that has HolisticTraceAnalysis 0.6")
    parser.add_argument("--skip-hta", action="store_true")
    parser.add_argument("--quick", action="store_true", help="only the million events")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder)
        theirs = None
        if not options.skip_hta:
            theirs = options.hta or install(temporary / "hta")
        rows = []
        million = temporary / "million.json.gz"
        apart(options.traces / SOURCE, million, 5)
        rows.append(measure("million events, gzip", million, theirs, options.repeats))
        if not options.quick:
            million.unlink()
            for name in SMALLER:
                rows.append(measure(name, options.traces / name, theirs, options.repeats))
            large = temporary / "large.json"
            apart(options.traces / SOURCE, large, 19)
            rows.append(measure("one gigabyte, plain", large, None, options.repeats))
    result = {
        "hta": HTA,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "load_average": os.getloadavg(),
        "page_size": resource.getpagesize(),
        "files": rows,
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
