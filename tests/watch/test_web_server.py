"""The exporter's server under clients that do not talk, and behind TLS and a login."""

from __future__ import annotations

import base64
import http.client
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner
from watch_samples import device

from gpuscope.cli.app import app
from gpuscope.errors import InputFileError, InvalidValueError
from gpuscope.watch import web_server
from gpuscope.watch.exporter import Address, Exporter, warning_of
from gpuscope.watch.hosts import Hosts
from gpuscope.watch.types import Sample
from gpuscope.watch.web_server import MOST_CONNECTIONS, Protection


def scrape(exporter: Exporter, context: ssl.SSLContext | None = None, login: str = "") -> str:
    request = urllib.request.Request(exporter.address.url)
    if login:
        request.add_header("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
    with urllib.request.urlopen(request, timeout=4.5, context=context) as answer:
        return answer.read().decode()


@contextmanager
def serving(protection: Protection | None = None) -> Iterator[Exporter]:
    with Exporter("localhost:0", protection=protection) as exporter:
        exporter.update([Sample(1.76e9, "node1", (device(),), 0.25)])
        yield exporter


@contextmanager
def silent(exporter: Exporter, number: int, says: bytes = b"") -> Iterator[list[socket.socket]]:
    """Clients that connect and say nothing, or half of a request."""
    with ExitStack() as opened:
        found = []
        for _ in range(number):
            address = (exporter.address.host, exporter.address.port)
            each = opened.enter_context(socket.create_connection(address, timeout=5))
            each.sendall(says)
            found.append(each)
        yield found


@pytest.mark.parametrize(("number", "says"), [(400, b""), (60, b"GET /metrics HTT")])
def test_half_open_connections_hold_few_threads_and_keep_nobody_out(
    number: int, says: bytes
) -> None:
    before = threading.active_count()
    with serving() as exporter, silent(exporter, number, says):
        began = time.monotonic()
        assert "gpuscope_device_power_watts" in scrape(exporter)
        assert time.monotonic() - began < 4.5  # before any of the silent ones is let go
        assert threading.active_count() - before <= MOST_CONNECTIONS + 2


def test_who_says_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "SILENCE_S", 0.3)
    before = threading.active_count()
    with serving() as exporter, silent(exporter, 20) as clients:
        assert all(each.recv(1) == b"" for each in clients)
        _settled(before + 1)


def test_who_dribbles_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then is no silence; a connection has an end all the same."""
    monkeypatch.setattr(web_server, "LIFE_S", 0.5)
    with (
        serving() as exporter,
        silent(exporter, 1, b"GET ") as (client,),
        pytest.raises((BrokenPipeError, ConnectionResetError)),
    ):
        _dribble(client, 5)


def _dribble(client: socket.socket, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        client.sendall(b"x")
        time.sleep(0.1)


def _settled(most: int) -> None:
    until = time.monotonic() + 5
    while threading.active_count() > most and time.monotonic() < until:
        time.sleep(0.05)
    assert threading.active_count() <= most


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of "localhost" and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj "
        f"/CN=localhost -addext subjectAltName=DNS:localhost -keyout {key} -out {certificate}",
        shell=True,
        check=True,
        capture_output=True,
    )
    return certificate, key


def test_tls(pair: tuple[Path, Path]) -> None:
    trusting = ssl.create_default_context(cafile=str(pair[0]))
    with serving(Protection(*pair)) as exporter:
        assert exporter.address.url.startswith("https://localhost:")
        assert "gpuscope_device_power_watts" in scrape(exporter, trusting)
        with pytest.raises(urllib.error.URLError, match="certificate"):
            scrape(exporter)
        with pytest.raises((ConnectionError, http.client.HTTPException, urllib.error.URLError)):
            urllib.request.urlopen(exporter.address.url.replace("https", "http"), timeout=3)
        with silent(exporter, 3):  # who does not shake hands keeps nobody out
            began = time.monotonic()
            assert "gpuscope_device_power_watts" in scrape(exporter, trusting)
            assert time.monotonic() - began < 4.5  # before any of the silent ones is let go


def test_a_login(pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "login"
    file.write_text("grafana:pässword:with colon\n")
    with serving(Protection(login=file)) as exporter:
        assert "node1" in scrape(exporter, login="grafana:pässword:with colon")
        for wrong in ("", "grafana:", "grafana:pass", "x:pässword:with colon", "\u202e:\x1b"):
            with pytest.raises(urllib.error.HTTPError) as told:
                scrape(exporter, login=wrong)
            assert told.value.code == 401
            assert told.value.headers["WWW-Authenticate"].startswith("Basic ")
            assert b"node1" not in told.value.read()


def test_other_hosts_are_asked_with_the_login_of_netrc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, home = tmp_path / "login", tmp_path / "home"
    file.write_text("grafana:secret\n")
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    with serving(Protection(login=file)) as exporter:
        hosts = Hosts([f"localhost:{exporter.address.port}"])
        assert hosts.read() == ()
        assert "Unauthorized" in str(hosts.notes)
        (home / ".netrc").write_text("machine localhost login grafana password secret\n")
        (home / ".netrc").chmod(0o600)
        assert [sample.host for sample in hosts.read()] == ["node1"]
        hosts.close()


def test_what_is_wrong_with_certificates_and_logins(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    certificate, key = pair
    locked, text = tmp_path / "locked.pem", tmp_path / "text"
    subprocess.run(
        ["openssl", "pkey", "-in", str(key), "-aes128", "-passout", "pass:x", "-out", str(locked)],
        check=True,
        capture_output=True,
    )
    text.write_text("no login, no certificate")
    for wrong, said in (
        (Protection(certificate, tmp_path / "none"), "Cannot read"),
        (Protection(tmp_path, key), "Cannot read"),
        (Protection(text, key), "no certificate that TLS can use"),
        (Protection(certificate, text), "no certificate that TLS can use"),
        (Protection(certificate), "no certificate that TLS can use"),
        (Protection(certificate, locked), "no certificate that TLS can use"),
        (Protection(login=text), "holds no login"),
        (Protection(login=tmp_path / "none"), "Cannot read"),
    ):
        with pytest.raises(InputFileError, match=said):
            Exporter(":0", protection=wrong).start()
    with pytest.raises(InvalidValueError, match="needs a certificate"):
        Exporter(":0", protection=Protection(key=key)).start()


def test_what_is_told_of_an_open_port() -> None:
    everywhere = Address("0.0.0.0", 9400)
    assert "there is no password" in str(warning_of(everywhere))
    assert "--tls-cert" in str(warning_of(everywhere, login=True))
    assert warning_of(Address("0.0.0.0", 9400, tls=True), login=True) is None
    assert "there is no password" in str(warning_of(Address("0.0.0.0", 9400, tls=True)))


def test_they_belong_to_serve(tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["watch", "--once", "--login", str(tmp_path / "x")])
    assert told.exit_code == 2
    assert "belong to --serve" in told.output
