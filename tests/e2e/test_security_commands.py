"""The commands for certificates and tokens, up to a running overlay that uses what they wrote."""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from processes import free_ports

from octopia.security.tokens import read_tokens

OCTOPIA = [sys.executable, "-c", "from octopia.cli import main; main()"]


def octopia(folder: Path, *arguments: str, code: int = 0, **environment: str) -> str:
    done = subprocess.run(
        [*OCTOPIA, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=folder,
        env={**os.environ, "XDG_CONFIG_HOME": str(folder), **environment},
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_from_nothing_to_a_protected_overlay(tmp_path: Path):
    (tmp_path / "overlay.toml").write_text(
        f'tree = "path:1"\nclusters = 1\n[brokers."a.0"]\nport = {free_ports(1)[0]}\n'
        '[security]\nca = "certs/ca.pem"\ncertificate = "certs/{broker}.pem"\nkey = "certs/{broker}.key"\n'
        'client_tokens = "tokens.toml"\n'
    )
    octopia(tmp_path, "cert", "ca", "--out", "certs")
    octopia(tmp_path, "cert", "ca", "--out", "certs/other")
    shown = octopia(tmp_path, "cert", "broker", "overlay.toml", "--out", "certs")
    assert 'certificate = "certs/{broker}.pem"' in shown
    everything = octopia(
        tmp_path, "token", "add", "tokens.toml", "all", "--read", "TRUE", "--advertise", "TRUE"
    ).strip()
    operator = octopia(
        tmp_path, "token", "add", "tokens.toml", "boss", "--role", "operator", "--advertise", "x > 0"
    ).strip()
    octopia(tmp_path, "context", "add", "safe", "overlay.toml")
    with subprocess.Popen(
        [*OCTOPIA, "up", "overlay.toml", "--plain"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as overlay:
        try:
            assert overlay.stdout is not None
            assert re.match(r"1 broker is up .* for this machine only; Ctrl-C", overlay.stdout.readline())
            ca = {"OCTOPIA_CA": str(tmp_path / "certs/ca.pem")}
            published = octopia(tmp_path, "pub", "x=1", "-b", "a.0", OCTOPIA_TOKEN=everything, **ca)
            assert "1 accepted" in published
            assert "no subscription matches it now" in published
            assert '"ready": true' in octopia(tmp_path, "status", "--json", OCTOPIA_TOKEN=operator, **ca)
            assert "nobody wants it" in octopia(tmp_path, "trace", "x=1", "-b", "a.0", OCTOPIA_TOKEN=operator, **ca)
            # The context knows the authority of the overlay file.
            assert "1 accepted" in octopia(tmp_path, "pub", "x=1", OCTOPIA_TOKEN=everything)
            stranger = octopia(
                tmp_path, "pub", "x=1", code=1, OCTOPIA_TOKEN=everything, OCTOPIA_CA="certs/other/ca.pem"
            )
            assert stranger.endswith(
                "; set OCTOPIA_CA to the certificate of the overlay's authority, such as certs/ca.pem\n"
            )
            refused = octopia(tmp_path, "pub", "x=1", "-b", "a.0", code=1, **ca)
            assert refused.endswith("the token is missing, wrong, expired or revoked; set OCTOPIA_TOKEN\n")
            octopia(tmp_path, "token", "revoke", "tokens.toml", "all")
            assert "expired or revoked" in octopia(
                tmp_path, "pub", "x=1", "-b", "a.0", "--timeout", "10", code=1, OCTOPIA_TOKEN=everything, **ca
            )
        finally:
            overlay.send_signal(signal.SIGTERM)
            _, said = overlay.communicate(timeout=30)
    assert "warning" not in said
    # The tokens of clients serve them for questions, too: only the missing token and the revoked one are refused.
    assert said.count("event=refused") == 2


def test_certificates_name_brokers_and_hosts_and_keys_are_private(tmp_path: Path):
    octopia(tmp_path, "cert", "ca", "--out", "certs")
    arguments = ["cert", "broker", "path:2", "b.1", "--clusters", "2", "--out", "certs", "--hostname", "b1.example"]
    written = json.loads(octopia(tmp_path, *arguments, "--json"))
    assert list(written) == ["b.1"]
    context = ssl.create_default_context(cafile=tmp_path / "certs/ca.pem")
    context.load_cert_chain(tmp_path / "certs/b.1.pem", tmp_path / "certs/b.1.key")
    text = ssl._ssl._test_decode_cert(str(tmp_path / "certs/b.1.pem"))  # type: ignore[attr-defined]
    assert text["subjectAltName"][0] == ("URI", "octopia://broker/b.1")
    assert ("DNS", "b1.example") in text["subjectAltName"]
    for key in ("ca.key", "b.1.key"):
        assert stat.S_IMODE((tmp_path / "certs" / key).stat().st_mode) == 0o600
    assert "--replace" in octopia(tmp_path, *arguments, code=2)
    octopia(tmp_path, *arguments, "--replace")
    assert "octopia cert ca" in octopia(tmp_path, "cert", "broker", "path:1", "--clusters", "1", "--out", "x", code=2)


def test_a_token_is_printed_once_and_stored_as_a_hash(tmp_path: Path):
    token = octopia(
        tmp_path,
        *("token", "add", "t.toml", "feed", "--advertise", "price > 0", "--hide", "account", "--expires", "90d"),
    ).strip()
    name, _, secret = token.partition(".")
    assert name == "feed"
    assert len(secret) >= 43
    file = tmp_path / "t.toml"
    assert secret not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    [row] = json.loads(octopia(tmp_path, "token", "list", "t.toml", "--json"))
    assert row["state"] == "valid"
    assert row["advertise"] == "price > 0"
    assert row["read"] == "nothing"
    assert row["hide"] == ["account"]
    assert re.match(r"\d{4}-\d\d-\d\dT", row["expires"])
    shown = octopia(tmp_path, "token", "list", "t.toml")
    assert shown.startswith("feed: client, valid until ")
    assert octopia(tmp_path, "token", "revoke", "t.toml", "feed") == "feed is revoked\n"
    assert read_tokens(file)["feed"].is_revoked
    assert json.loads(octopia(tmp_path, "token", "list", "t.toml", "--json"))[0]["state"] == "revoked"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["feed"], "expected --advertise or --read"),
        (["fe ed", "--read", "TRUE"], "letters, digits"),
        (["feed", "--read", "x >"], "expected"),
        (["feed", "--read", "TRUE", "--expires", "soon"], "expected a lifetime"),
        (["feed", "--read", "TRUE", "--expires", "2020-01-01"], "got 2020-01-01, which is in the past"),
        (["feed", "--role", "king"], "king"),
    ],
)
def test_a_token_that_cannot_be_made(tmp_path: Path, arguments: list[str], says: str):
    assert says in octopia(tmp_path, "token", "add", "t.toml", *arguments, code=2)
    assert not (tmp_path / "t.toml").exists()


@pytest.mark.parametrize("security", ["", '[security]\nca = "certs/ca.pem"\ncertificate = "c"\nkey = "k"\n'])
def test_a_broker_that_everybody_reaches_says_so(tmp_path: Path, security: str):
    (tmp_path / "overlay.toml").write_text(
        f'tree = "path:1"\nclusters = 1\n[brokers."a.0"]\nport = {free_ports(1)[0]}\n'
    )
    if security:
        octopia(tmp_path, "cert", "ca", "--out", "certs")
        octopia(tmp_path, "cert", "broker", "overlay.toml", "--out", "certs")
        names = security.replace('"c"', '"certs/{broker}.pem"').replace('"k"', '"certs/{broker}.key"')
        (tmp_path / "overlay.toml").write_text((tmp_path / "overlay.toml").read_text() + names)
    with subprocess.Popen(
        [*OCTOPIA, "broker", "overlay.toml", "a.0", "--host", "0.0.0.0"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as broker:
        try:
            assert broker.stderr is not None
            assert "a.0 listens at 0.0.0.0:" in broker.stderr.readline()
            warning = broker.stderr.readline()
        finally:
            broker.send_signal(signal.SIGTERM)
            broker.communicate(timeout=30)
    assert warning.startswith("warning: anyone who can reach 0.0.0.0 can publish")
    assert ("act as a broker" in warning) is not bool(security)
