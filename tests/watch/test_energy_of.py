"""A command's energy: known answers from made-up sensors, and what the command itself sees."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.errors import InvalidValueError
from gpuscope.hardware.grid import WORLD, grid_factor
from gpuscope.measurement.sensors import Replay
from gpuscope.measurement.sensors.types import Reading, SensorInfo
from gpuscope.watch import energy_of
from gpuscope.watch.energy_of import CommandError, DeviceEnergy, EnergyReport, Meter, run

H200 = SensorInfo("nvidia", 0, "NVIDIA H200", "GPU-1")
QUICK = [sys.executable, "-c", "pass"]


def metered(*readings: Reading, info: SensorInfo = H200, host: bool = False) -> DeviceEnergy:
    meter = Meter(Replay(readings, info))
    for _ in readings:
        meter.read()
    return meter.result(host=host)


class Watt:
    """A sensor that draws so much, and counts it; it keeps real time."""

    def __init__(self, watts: float, info: SensorInfo = H200, counter: bool = True) -> None:
        self.watts, self.info, self.counter = watts, info, counter
        self.closed = False

    def read(self, *, processes: bool = False) -> Reading:
        now = time.perf_counter()
        energy_j = self.watts * now if self.counter else None
        return Reading(now, power_w=self.watts, energy_j=energy_j)

    def close(self) -> None:
        self.closed = True


def test_the_counter_s_difference_is_the_energy() -> None:
    found = metered(
        Reading(10.0, power_w=100.0, energy_j=5000.0),
        Reading(12.0, power_w=700.0, energy_j=5500.0),
        Reading(14.0, power_w=200.0, energy_j=6600.0),
    )
    assert (found.energy_j, found.average_w, found.peak_w) == (1600.0, 400.0, 700.0)
    assert (found.method, found.uncertainty_j) == ("counter", pytest.approx(40.0))


def test_without_a_counter_power_is_integrated() -> None:
    found = metered(
        Reading(0.0, power_w=100.0), Reading(2.0, power_w=300.0), Reading(3.0, power_w=300.0)
    )
    assert found.energy_j == pytest.approx(400.0 + 300.0)
    assert found.average_w == pytest.approx(700 / 3)
    assert (found.method, found.peak_w) == ("power", 300.0)
    assert found.uncertainty_j == pytest.approx(700 / 3)  # half of the longest gap


def test_a_counter_that_was_reset_gives_way_to_power() -> None:
    found = metered(
        Reading(0.0, power_w=50.0, energy_j=900.0), Reading(2.0, power_w=50.0, energy_j=10.0)
    )
    assert (found.energy_j, found.method) == (100.0, "power")


def test_a_hole_in_the_power_is_not_filled() -> None:
    found = metered(Reading(0.0, power_w=50.0), Reading(1.0), Reading(2.0, power_w=50.0))
    assert (found.energy_j, found.method) == (None, "none")
    assert found.peak_w == 50.0


@pytest.mark.parametrize(
    ("readings", "info", "why"),
    [
        ((Reading(0.0), Reading(5.0)), H200, "neither"),
        ((Reading(0.0, power_w=5.0), Reading(0.5, power_w=5.0)), H200, "less than 1 s"),
        ((Reading(0.0), Reading(5.0)), SensorInfo("nvidia", 0, "H200 MIG 1g", slice=True), "slice"),
    ],
)
def test_why_there_is_none(readings: tuple[Reading, ...], info: SensorInfo, why: str) -> None:
    found = metered(*readings, info=info)
    assert found.energy_j is None
    assert found.average_w is None
    assert why in found.why_not


def test_a_meter_that_was_never_read() -> None:
    assert Meter(Replay([Reading(0.0)])).result().why_not == "It was not read."


@given(
    st.lists(st.tuples(st.floats(0.01, 10), st.floats(0, 1500)), min_size=2, max_size=20).filter(
        lambda gaps: sum(gap for gap, _ in gaps[1:]) >= 1.01
    )
)
def test_the_integral_lies_between_lowest_and_highest_power(
    gaps: list[tuple[float, float]],
) -> None:
    at, readings = 0.0, []
    for number, (gap, watts) in enumerate(gaps):
        at += gap if number else 0.0
        readings.append(Reading(at, power_w=watts))
    found = metered(*readings)
    lowest, highest = min(w for _, w in gaps), max(w for _, w in gaps)
    assert found.energy_j is not None
    assert lowest * at * 0.999 - 1e-6 <= found.energy_j <= highest * at * 1.001 + 1e-6
    assert found.peak_w == highest


def report(*devices: DeviceEnergy, host: DeviceEnergy | None = None, **more) -> EnergyReport:
    options = {"grid": WORLD, "price_per_kwh": None, **more}
    return EnergyReport(("x",), 0, 10.0, devices, host, **options)


def part(energy_j: float | None, index: int | None = 0) -> DeviceEnergy:
    method = "none" if energy_j is None else "counter"
    return DeviceEnergy("H200", index, energy_j, 1.0, 1.0, 1.0, method)


def test_cost_and_carbon_of_a_kilowatt_hour() -> None:
    found = report(part(3.6e6), grid=grid_factor("56"), price_per_kwh=0.12)
    assert found.co2_g == pytest.approx(56.0)
    assert found.cost_usd == pytest.approx(0.12)
    assert found.average_w == 3.6e5


def test_a_sum_that_lacks_something_says_so() -> None:
    assert report(part(5.0), part(7.0, 1), host=part(2.0, None)).energy_j == 14.0
    assert report(part(5.0), host=part(2.0, None)).complete
    assert not report(part(5.0)).complete  # the host does not tell
    assert not report(part(5.0), part(None, 1), host=part(2.0, None)).complete
    assert report(part(5.0), part(None, 1)).energy_j == 5.0


def test_nothing_read_is_none_not_zero() -> None:
    found = report()
    assert found.energy_j is found.co2_g is found.cost_usd is found.average_w is None
    assert not found.complete


def test_a_real_command_beside_known_watts() -> None:
    sensors = [Watt(200.0), Watt(50.0, SensorInfo("nvidia", 1, "H200"), counter=False)]
    package = Watt(10.0, SensorInfo("cpu_package", 0, "package-0"))
    command = [sys.executable, "-c", "import time; time.sleep(1.2)"]
    found = run(command, sensors=sensors, package=package, interval_s=0.2)
    assert found.exit_code == 0
    assert [each.method for each in found.devices] == ["counter", "power"]
    for each, watts in zip(found.parts, (200.0, 50.0, 10.0), strict=True):
        assert each.average_w == pytest.approx(watts, rel=1e-3)
        assert each.energy_j == pytest.approx(watts * found.seconds, rel=0.05)
    assert found.host is not None
    assert found.host.index is None
    assert found.energy_j == pytest.approx(sum(p.energy_j or 0 for p in found.parts))
    assert not any(sensor.closed for sensor in sensors)  # they are the caller's


def test_devices_that_are_opened_here_are_closed_here(monkeypatch) -> None:
    mine, package = Watt(1.0), Watt(2.0, SensorInfo("cpu_package", 0, "package-0"))
    monkeypatch.setattr(energy_of, "open_devices", lambda indices: (mine,) * (indices == [2]))
    monkeypatch.setattr(energy_of, "open_sensor", lambda index, vendor: package)
    found = run(QUICK, indices=[2])
    assert [each.name for each in found.devices] == ["NVIDIA H200"]
    assert found.host is not None
    assert mine.closed
    assert package.closed


@pytest.mark.parametrize("code", [0, 1, 3, 77, 255])
def test_the_exit_code_is_kept(code: int) -> None:
    command = [sys.executable, "-c", f"import os; os._exit({code})"]
    assert run(command, sensors=[]).exit_code == code


def test_a_signal_s_end_is_told_as_shells_do() -> None:
    command = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]
    assert run(command, sensors=[]).exit_code == 128 + 9


@pytest.mark.parametrize(
    ("command", "code"), [(["no-such-program-here"], 127), ([__file__], 126), (["/"], 126)]
)
def test_what_cannot_be_started(command: list[str], code: int) -> None:
    with pytest.raises(CommandError) as told:
        run(command, sensors=[])
    assert told.value.exit_code == code


@pytest.mark.parametrize(
    "options", [{"interval_s": 0.0}, {"price_per_kwh": -1.0}, {"price_per_kwh": float("nan")}]
)
def test_what_cannot_be(options: dict[str, float]) -> None:
    with pytest.raises(InvalidValueError):
        run(QUICK, sensors=[], **options)
    with pytest.raises(InvalidValueError):
        run([], sensors=[])


SCRIPT = textwrap.dedent(
    """
    import sys
    from gpuscope.watch.energy_of import run
    report = run(sys.argv[1:], sensors=[], interval_s=0.2)
    print("ended", report.exit_code, file=sys.stderr)
    sys.exit(report.exit_code)
    """
)


def start(child: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, sys.executable, "-u", "-c", textwrap.dedent(child)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_input_and_output_are_untouched() -> None:
    process = start("import sys; sys.stdout.write(sys.stdin.read().upper())")
    out, err = process.communicate("some bytes\r\n\0end", timeout=30)
    assert out == "SOME BYTES\n\0END"  # text mode reads \r\n as \n
    assert err == "ended 0\n"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1"])
def test_signals_are_passed_on(name: str) -> None:
    """The child hears it once, ends as it likes, and its code is kept."""
    process = start(
        f"""
        import signal, sys, time
        heard = []
        signal.signal(signal.{name}, lambda number, frame: heard.append(number))
        print("ready", flush=True)
        while not heard:
            time.sleep(0.01)
        time.sleep(0.2)
        print("heard", len(heard))
        sys.exit(42)
        """
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, getattr(signal, name))
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (42, "heard 1\n", "ended 42\n")


def test_the_keyboard_s_interrupt_is_heard_once() -> None:
    """At a terminal the child gets it with us; passed on as well it would come twice."""
    pexpect = pytest.importorskip("pexpect")
    child = (
        "import signal, time\nheard = []\n"
        "signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))\n"
        "print('ready', flush=True)\n"
        "while not heard: time.sleep(0.01)\n"
        "time.sleep(0.2); print('heard', len(heard)); raise SystemExit(42)"
    )
    terminal = pexpect.spawn(
        sys.executable, ["-c", SCRIPT, sys.executable, "-u", "-c", child], timeout=30
    )
    terminal.expect_exact("ready")
    terminal.sendintr()
    terminal.expect_exact("heard 1")
    terminal.expect_exact("ended 42")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 42


def test_the_handlers_are_put_back() -> None:
    before = {name: signal.getsignal(getattr(signal, name)) for name in ("SIGTERM", "SIGINT")}
    run(QUICK, sensors=[])
    with pytest.raises(CommandError):
        run(["/"], sensors=[])
    after = {name: signal.getsignal(getattr(signal, name)) for name in ("SIGTERM", "SIGINT")}
    assert after == before


def test_it_may_run_outside_the_main_thread() -> None:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(run(QUICK, sensors=[]).exit_code))
    thread.start()
    thread.join(20)
    assert found == [0]


def test_the_command_s_number_is_told() -> None:
    pids: list[int] = []
    tell: Callable[[int], None] = pids.append
    run(QUICK, sensors=[], on_start=tell)
    assert len(pids) == 1
    assert pids[0] > 0
