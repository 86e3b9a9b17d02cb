"""Two ends of TLS without a socket: bytes in any pieces give the same text, and each end says what is wrong."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from octopia.errors import BrokenCredentials, TlsFailure
from octopia.security.certificates import make_broker_certificate, make_ca
from octopia.transport.tls import TlsLayer, begins_handshake, broker_context, client_context


@dataclasses.dataclass(frozen=True)
class Files:
    folder: Path

    def server(self) -> TlsLayer:
        return TlsLayer(self._context(is_server=True), is_server=True)

    def neighbour(self, expects: str) -> TlsLayer:
        return TlsLayer(self._context(is_server=False), expects=expects)

    def client(self, **options: str) -> TlsLayer:
        return TlsLayer(client_context(self.folder / "ca.pem", checks_host="host" in options), **options)

    def _context(self, *, is_server: bool) -> object:
        return broker_context(self.folder / "ca.pem", self.folder / "b.pem", self.folder / "b.key", is_server=is_server)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("certs")
    authority = make_ca("test")
    authority.write(folder / "ca.pem", folder / "ca.key")
    made = make_broker_certificate(authority, ["b.3", "b.4"], ["127.0.0.1", "host.example"])
    made.write(folder / "b.pem", folder / "b.key")
    return Files(folder)


def carry(one: TlsLayer, other: TlsLayer, pieces: int = 10_000) -> tuple[bytes, bytes]:
    """Carry bytes both ways until there are none, in pieces; return what each end has read."""
    read = [b"", b""]
    while True:
        waiting = one.take(), other.take()
        if not any(waiting):
            return read[0], read[1]
        for number, (end, data) in enumerate([(other, waiting[0]), (one, waiting[1])]):
            for start in range(0, len(data), pieces):
                read[1 - number] += end.feed(memoryview(data)[start : start + pieces])


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.sampled_from([1, 2, 7, 100, 20_000]), text=st.binary(min_size=1, max_size=50_000))
def test_text_arrives_whole_in_any_pieces(files: Files, pieces: int, text: bytes):
    client, server = files.client(expects="b.3"), files.server()
    client.begin()
    carry(client, server, pieces)
    assert client.is_established
    assert server.is_established
    client.encrypt(text)
    server.encrypt(text[::-1])
    assert carry(client, server, pieces) == (text[::-1], text)
    assert server.peer_brokers == ()
    assert client.peer_brokers == ("b.3", "b.4")


def test_brokers_know_each_other(files: Files):
    dialling, server = files.neighbour("b.4"), files.server()
    dialling.begin()
    carry(dialling, server)
    assert server.peer_brokers == dialling.peer_brokers == ("b.3", "b.4")


@pytest.mark.parametrize("options", [{"expects": "a.0"}, {"host": "127.0.0.2"}, {"host": "other.example"}])
def test_the_wrong_name_is_not_accepted_and_nothing_is_sent_to_it(files: Files, options: dict[str, str]):
    client, server = files.client(**options), files.server()
    client.begin()
    with pytest.raises(TlsFailure, match="certificate"):
        carry(client, server)
    assert not client.is_established


def test_the_name_or_the_address_of_the_host_is_accepted(files: Files):
    for host in ("127.0.0.1", "host.example"):
        client, server = files.client(host=host), files.server()
        client.begin()
        carry(client, server)
        assert client.is_established


def test_frames_are_no_handshake():
    for length in range(60_000):
        assert not begins_handshake(length.to_bytes(4, "little") + b"\x01")
    assert begins_handshake(b"\x16\x03\x01\x02\x00\x01")


@pytest.mark.parametrize("file", ["ca.pem", "b.pem", "b.key"])
def test_files_that_are_no_certificates_are_refused(files: Files, file: str, tmp_path: Path):
    names = {name: files.folder / name for name in ("ca.pem", "b.pem", "b.key")}
    names[file] = tmp_path / file
    with pytest.raises(BrokenCredentials, match=file):
        broker_context(*names.values(), is_server=True)
    names[file].write_text("nonsense")
    with pytest.raises(BrokenCredentials, match=file):
        broker_context(*names.values(), is_server=True)


def test_a_failure_after_the_handshake_is_not_one_of_the_handshake(files: Files):
    client, server = files.client(expects="b.3"), files.server()
    client.begin()
    carry(client, server)
    assert server.is_established
    client.encrypt(b"text")
    with pytest.raises(TlsFailure, match="expected encrypted data, got an error") as caught:
        server.feed(client.take()[:-1] + b"\0")
    assert "handshake" not in str(caught.value)
