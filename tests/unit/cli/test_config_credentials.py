"""``octopia config check`` opens the files of [security], and says in one sentence what is wrong with each."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
import trustme
from secured import Secured
from typer.testing import CliRunner, Result

from octopia.cli import app
from octopia.security.tokens import TokenRole

SECURITY = """
tree = "a-b"
clusters = 1

[security]
ca = "ca.pem"
certificate = "{broker}.pem"
key = "{broker}.key"
client_tokens = "tokens.toml"
"""


@pytest.fixture
def made(tmp_path: Path) -> Secured:
    (tmp_path / "overlay.toml").write_text(SECURITY)
    made = Secured(tmp_path, "a-b", 1, has_tokens=True)
    made.add_token("ops", role=TokenRole.OPERATOR)
    return made


def check(made: Secured, *arguments: str) -> Result:
    file = str(made.folder / "overlay.toml")
    return CliRunner().invoke(app, ["config", "check", file, *arguments], catch_exceptions=False)


def faults(made: Secured, *brokers: str) -> list[str]:
    """Return the faults, which are the same with ``--json``, and on stderr in one line each."""
    plain, as_json = check(made, *brokers), check(made, *brokers, "--json")
    assert plain.exit_code == as_json.exit_code == 2
    found: list[str] = json.loads(as_json.stdout)["faults"]
    assert plain.stderr.splitlines() == [f"octopia: {each}" for each in found]
    assert plain.stdout == ""
    return [each.replace(f"{made.folder}/", "") for each in found]


def test_good_files_are_valid(made: Secured) -> None:
    result = check(made)
    assert result.exit_code == 0
    assert "the files of [security] are valid for a.0, b.0\n" in result.stdout


def test_every_missing_file_is_named_once(made: Secured) -> None:
    for name in ("ca.pem", "b.0.key", "tokens.toml"):
        (made.folder / name).unlink()
    assert faults(made) == [
        "expected the certificate of an authority at ca.pem, got no file: make it with `octopia cert ca`",
        "expected a file of tokens at tokens.toml, got none: make it with `octopia token add`",
        "expected the key of b.0 at b.0.key, got no file: make it with `octopia cert broker`",
    ]


def test_only_the_files_of_brokers_that_are_named_are_opened(made: Secured) -> None:
    (made.folder / "b.0.key").unlink()
    assert check(made, "a.0").exit_code == 0
    assert len(faults(made, "a.0", "b.0")) == 1


def test_a_file_that_cannot_be_read(made: Secured) -> None:
    (made.folder / "a.0.key").unlink()
    (made.folder / "a.0.key").mkdir()
    assert faults(made) == ["expected the key of a.0 at a.0.key, got a file that cannot be read: Is a directory"]


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("ca.pem", "expected the certificate of an authority, in PEM, at ca.pem, got another file"),
        ("a.0.pem", "expected a certificate and its key, in PEM, in a.0.pem and a.0.key, got something else"),
        ("a.0.key", "expected a certificate and its key, in PEM, in a.0.pem and a.0.key, got something else"),
    ],
)
def test_a_file_with_something_else(made: Secured, name: str, fault: str) -> None:
    (made.folder / name).write_text("nonsense\n")
    assert faults(made) == [fault]


def test_a_key_that_does_not_fit(made: Secured) -> None:
    (made.folder / "a.0.key").write_bytes((made.folder / "b.0.key").read_bytes())
    assert faults(made) == ["expected the key of the certificate in a.0.pem, got another one in a.0.key"]


def test_a_certificate_of_another_broker(made: Secured) -> None:
    made.issue("a.0", brokers=["b.0"])
    assert faults(made) == [
        "the certificate in a.0.pem is not accepted under ca.pem: expected a certificate that names a.0, got one that "
        "names b.0"
    ]


def test_a_certificate_of_another_authority(made: Secured) -> None:
    made.issue("a.0", authority=trustme.CA())
    (fault,) = faults(made)
    assert fault.startswith("the certificate in a.0.pem is not accepted under ca.pem: ")


def test_a_certificate_that_has_expired(made: Secured) -> None:
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    issued = made.authority.issue_cert("127.0.0.1", not_before=yesterday.replace(year=2020), not_after=yesterday)
    issued.cert_chain_pems[0].write_to_path(made.folder / "a.0.pem")
    issued.private_key_pem.write_to_path(made.folder / "a.0.key")
    assert faults(made) == ["the certificate in a.0.pem is not accepted under ca.pem: certificate has expired"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[[token]]\nname = 'x'\n", 'expected the key "sha256", got none'),
        ("[[token]]\nname = 'x y'\nsha256 = ''\n", "expected name to be 1 to 64 letters"),
        ("[[token", "tokens cannot be read"),
    ],
)
def test_a_file_of_tokens_with_a_fault(made: Secured, text: str, fault: str) -> None:
    made.tokens.write_text(text)
    (found,) = faults(made)
    assert "tokens.toml" in found
    assert fault in found
