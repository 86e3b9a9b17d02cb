"""The protocols of the peers in the benchmark, and a small run with those that are installed."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import pytest

from support import load_benchmark

PAYLOADS = [b"", b"\r\n$3\r\nMSG x", bytes(range(256)) * 3]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads the clocks of processes as Linux has them")


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load_benchmark("peers", monkeypatch)


def test_publications_are_encoded_as_the_protocols_have_them(peers: ModuleType):
    assert peers.Nats().publish("a", b"xyz") == b"PUB a 3\r\nxyz\r\n"
    assert peers.Resp().publish("a", b"xyz") == b"*3\r\n$7\r\nPUBLISH\r\n$1\r\na\r\n$3\r\nxyz\r\n"
    assert peers.Mqtt().publish("a", b"xyz") == b"\x30\x06\x00\x01axyz"
    assert peers.Mqtt().publish("a", bytes(200))[:3] == b"\x30\xcb\x01"


def test_subscriptions_are_encoded_with_the_number_of_answers(peers: ModuleType):
    assert peers.Nats().subscribe(["a", "b"]) == (b"SUB a 1\r\nSUB b 2\r\nPING\r\n", 1)
    assert peers.Resp().subscribe(["a", "b"]) == (b"*3\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n$1\r\nb\r\n", 2)
    assert peers.Mqtt().subscribe(["a", "b"]) == (b"\x82\x0a\x00\x01\x00\x01a\x00\x00\x01b\x00", 1)


def test_greetings(peers: ModuleType):
    assert peers.Nats().greeting("P") == b'CONNECT {"verbose":false,"pedantic":false,"name":"P"}\r\nPING\r\n'
    assert peers.Resp().greeting("P") == b"*1\r\n$4\r\nPING\r\n"
    assert peers.Mqtt().greeting("P") == b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01P"


def from_nats(payloads: list[bytes]) -> bytes:
    return b"INFO {}\r\nPONG\r\nPING\r\n" + b"".join(b"MSG a 1 %d\r\n%s\r\n" % (len(each), each) for each in payloads)


def from_redis(payloads: list[bytes]) -> bytes:
    found = [b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$%d\r\n%s\r\n" % (len(each), each) for each in payloads]
    return b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n:5\r\n" + b"".join(found)


@pytest.mark.parametrize("kind", ["Nats", "Resp", "Mqtt"])
@pytest.mark.parametrize("step", [1, 2, 7, 100, 10_000])
def test_payloads_are_read_however_the_bytes_arrive(peers: ModuleType, kind: str, step: int):
    protocol = getattr(peers, kind)()
    packets = b"\x20\x02\x00\x00" + b"".join(protocol.publish("a", each) for each in PAYLOADS)
    data = {"Nats": from_nats(PAYLOADS), "Resp": from_redis(PAYLOADS), "Mqtt": packets}[kind]
    got = [each for start in range(0, len(data), step) for each in protocol.feed(data[start : start + step])]
    assert got == PAYLOADS
    assert protocol.answers == 1
    assert protocol.reply == (b"PONG\r\n" if kind == "Nats" else b"")


@pytest.mark.parametrize(
    ("kind", "data"), [("Nats", b"-ERR 'no'\r\n"), ("Resp", b"-ERR no\r\n"), ("Mqtt", b"\x20\x02\x00\x05")]
)
def test_refusals_are_errors(peers: ModuleType, kind: str, data: bytes):
    with pytest.raises(ValueError, match=r"says|expected"):
        getattr(peers, kind)().feed(data)


def test_messages_carry_the_number_and_the_time(peers: ModuleType):
    message = peers.message(1234, 56.75)
    assert peers.number_of(message) == 1234
    assert peers.published_ms_of(message) == 56.75


@pytest.mark.soak
def test_a_small_run_measures_what_is_installed(peers: ModuleType, capsys: pytest.CaptureFixture[str]):
    peers.main(["--quick", "--json"])
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    names = [name for name, peer in peers.PEERS.items() if peer.find()]
    for figure in ("hop", "fan", "delay", "features"):
        assert [row["system"] for row in found[figure]] == ["octopia", *names]
    assert all(row["cpu_us"] > 0 for figure in ("hop", "fan") for row in found[figure])
    assert all(row["p99_us"] >= row["p50_us"] > 0 for row in found["delay"])
    assert printed.err.count("apt-get install") == len(peers.PEERS) - len(names)


def test_what_is_missing_is_skipped(
    peers: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(peers.shutil, "which", lambda *_, **__: None)
    assert peers.installed(["nats"]) == {}
    assert "nats-server is not installed; try: apt-get install nats-server" in capsys.readouterr().err
