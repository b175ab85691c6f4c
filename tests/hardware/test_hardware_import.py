"""Importing the room stays cheap: no torch, nor anything else that takes its time."""

import subprocess
import sys

PROGRAM = """
import sys
import gpuscope.hardware as hardware
hardware.device_ids()
heavy = sorted({"torch", "pydantic", "pandas", "transformers", "rich"} & set(sys.modules))
assert not heavy, heavy
read = []
def opened(event, given):
    if event == "open" and str(given[0]).endswith(".toml"):
        read.append(str(given[0]))
sys.addaudithook(opened)
hardware.device("h200")
assert "torch" not in sys.modules
devices = [name for name in read if "/devices/" in name.replace(chr(92), "/")]
assert len(devices) == 1, devices
assert len(read) <= 8, read
"""


def test_importing_reads_nothing_and_one_device_reads_one_device_file() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
