"""The [security] table of overlay files."""

from __future__ import annotations

from pathlib import Path

import pytest

from octopia.errors import InvalidFile
from octopia.overlay.files import load_overlay
from octopia.settings import SecuritySettings

TREE = 'tree = "path:2"\nclusters = 2\n'
TLS = 'ca = "certs/ca.pem"\ncertificate = "certs/{broker}.pem"\nkey = "/keys/{broker}.key"\n'


def write(folder: Path, text: str) -> Path:
    file = folder / "overlay.toml"
    file.write_text(TREE + text)
    return file


def test_paths_are_relative_to_the_file_and_addresses_speak_tls(tmp_path: Path):
    overlay = load_overlay(write(tmp_path, f'[security]\n{TLS}client_tokens = "t.toml"\n'))
    assert overlay.security == SecuritySettings(
        str(tmp_path / "certs/ca.pem"),
        str(tmp_path / "certs/{broker}.pem"),
        "/keys/{broker}.key",
        str(tmp_path / "t.toml"),
    )
    assert all(address.speaks_tls for address in overlay.addresses.values())


def test_without_the_table_nothing_is_protected_and_brokers_listen_on_loopback(tmp_path: Path):
    overlay = load_overlay(write(tmp_path, ""))
    assert not overlay.security.has_tls
    assert not overlay.security.has_tokens
    assert {(each.host, each.speaks_tls) for each in overlay.addresses.values()} == {("127.0.0.1", False)}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('ca = "a"\nkey = "b"', "ca, certificate, key together, got no certificate"),
        ('client_tokens = "t.toml"', "tokens are safe over TLS only"),
        ("", "expected ca, certificate, key, got none"),
        (f"{TLS}tokens = 't.toml'", 'got "tokens"'),
        ("ca = 1", "a string"),
    ],
)
def test_half_a_table_is_refused(tmp_path: Path, text: str, says: str):
    with pytest.raises(InvalidFile, match=says):
        load_overlay(write(tmp_path, f"[security]\n{text}\n"))
