"""What `gpuscope watch` costs and whether it leaks: minutes to hours in a process of its own.

    python benchmarks/watch_cost.py --seconds 300                  # this host's devices
    python benchmarks/watch_cost.py --seconds 300 --devices 8      # a recording of 8 busy devices

Two runs at a time: the live view in a pseudo-terminal, and `--json-lines` into a pipe. Every ten
seconds the kernel is asked for processor time, resident memory, open files and threads. The first
minute is left out of the growth: the history fills for ten minutes, so growth is told per hour
from the tenth minute on where the run is long enough, else from the first. Results go to
benchmarks/results/watch_cost.json.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

from gpuscope.measurement.sensors.types import ProcessUse, Reading, SensorInfo
from gpuscope.watch.recording import SampleWriter
from gpuscope.watch.types import Activity, DeviceSample, Sample

HERE = Path(__file__).parent
STEP_S = 10.0
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def recording(path: Path, devices: int, seconds: float) -> None:
    """Samples of busy devices at 1 Hz, a little longer than the run."""
    reading = Reading(
        0.0,
        power_w=620.0,
        energy_j=1e6,
        sm_clock_hz=1.98e9,
        memory_clock_hz=3.2e9,
        temperature_c=61.0,
        utilisation=0.99,
        memory_used_bytes=100 << 30,
        memory_total_bytes=141 << 30,
        throttle_reasons=("software power cap",),
        throttled_s={"power": 1.0},
        power_limit_w=700.0,
        pcie_generation=5,
        pcie_width=16,
        processes=(ProcessUse(4242, "python train.py", 99 << 30),),
    )
    start_s = time.time()
    with SampleWriter(path) as writer:
        for number in range(int(seconds) + 60):
            wave = 0.5 + 0.4 * ((number % 20) / 20)
            found = tuple(
                DeviceSample(
                    SensorInfo("nvidia", index, "NVIDIA H200", f"GPU-{index}", "580.1"),
                    replace(reading, time_s=float(number), energy_j=1e6 + 620.0 * number),
                    Activity(wave, 0.4, 0.6 * wave, 0.5 * wave, 1e9, 1e8, 9e10, 9e10),
                )
                for index in range(devices)
            )
            writer.write(Sample(start_s + number, "node1", found, 0.2))


def state(pid: int) -> dict[str, float]:
    """What the kernel says of a process."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return {
        "at_s": time.monotonic(),
        "cpu_s": (int(words[11]) + int(words[12])) * TICK_S,
        "resident_bytes": int(words[21]) * os.sysconf("SC_PAGE_SIZE"),
        "open_files": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": int(words[17]),
    }


def start(mode: str, source: list[str]) -> tuple[subprocess.Popen[bytes], threading.Thread]:
    """Start `gpuscope watch`, and drain what it prints."""
    command = [sys.executable, "-m", "gpuscope", "watch", *source]
    if mode == "live":
        mine, its = pty.openpty()
        import fcntl
        import struct
        import termios

        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color"}
        process = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=environment)
        os.close(its)
    else:
        process = subprocess.Popen([*command, "--json-lines"], stdout=subprocess.PIPE)
        mine = process.stdout.fileno()

    def drain() -> None:
        try:
            while os.read(mine, 1 << 16):
                pass
        except OSError:
            pass

    thread = threading.Thread(target=drain, daemon=True)
    thread.start()
    return process, thread


def summary(states: list[dict[str, float]]) -> dict[str, float | None]:
    """Cost and growth of one run."""
    begin_s = states[0]["at_s"]
    steady = [s for s in states if s["at_s"] - begin_s >= 30]
    full = [s for s in states if s["at_s"] - begin_s >= 600]
    settled = full if len(full) > 6 else steady
    hours = (settled[-1]["at_s"] - settled[0]["at_s"]) / 3600
    seconds = steady[-1]["at_s"] - steady[0]["at_s"]
    return {
        "seconds": states[-1]["at_s"] - begin_s,
        "cpu_share_of_a_core": (steady[-1]["cpu_s"] - steady[0]["cpu_s"]) / seconds,
        "start_cpu_s": steady[0]["cpu_s"],
        "resident_bytes_first": settled[0]["resident_bytes"],
        "resident_bytes_last": settled[-1]["resident_bytes"],
        "growth_bytes_per_hour": (settled[-1]["resident_bytes"] - settled[0]["resident_bytes"])
        / hours,
        "open_files_first": steady[0]["open_files"],
        "open_files_last": steady[-1]["open_files"],
        "threads_first": steady[0]["threads"],
        "threads_last": steady[-1]["threads"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--devices", type=int, default=0, help="play a recording of so many")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "watch_cost.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source: list[str] = []
        if arguments.devices:
            path = Path(folder) / "samples.jsonl"
            recording(path, arguments.devices, arguments.seconds)
            source = ["--replay", str(path)]
        runs = {mode: start(mode, source)[0] for mode in ("live", "json_lines")}
        states: dict[str, list[dict[str, float]]] = {mode: [] for mode in runs}
        until = time.monotonic() + arguments.seconds
        while time.monotonic() < until:
            for mode, process in runs.items():
                states[mode].append(state(process.pid))
            time.sleep(STEP_S)
        for process in runs.values():
            process.terminate()
            process.wait(10)
    result = {
        "devices": arguments.devices or "this host's",
        "interval_s": 1.0,
        **{mode: summary(found) for mode, found in states.items()},
    }
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
