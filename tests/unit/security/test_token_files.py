"""Tokens and their file: what is written is read, what is wrong is refused, and nothing tells why a token fails."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import datetime
import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from octopia.content import parse_filter
from octopia.errors import BrokenCredentials, UsageError
from octopia.security.tokens import Token, TokenRole, changing_tokens, find_token, new_token, read_tokens, write_tokens
from octopia.security.watching import LOOK_S, Watched

NOW = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
HASH = hashlib.sha256(b"secret").hexdigest()


def test_what_is_written_is_read(tmp_path: Path):
    tokens = [
        Token("plain", HASH),
        Token(
            "all",
            "f" * 64,
            TokenRole.OPERATOR,
            NOW,
            True,
            parse_filter("a = 'it''s' AND b > 1 OR \"odd \\ name\" LIKE '%x'"),
            parse_filter("TRUE"),
            ("account", 'quo"te', "été"),
            True,
        ),
    ]
    write_tokens(tmp_path / "t.toml", tokens)
    assert list(read_tokens(tmp_path / "t.toml").values()) == tokens


def test_a_file_is_utf8_whatever_the_locale(tmp_path: Path):
    file = tmp_path / "t.toml"
    write = (
        "import pathlib, sys; from octopia.security.tokens import Token, write_tokens; "
        "write_tokens(pathlib.Path(sys.argv[1]), [Token('a', 'f' * 64, hide=('\\u00e9t\\u00e9',))])"
    )
    locale = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    subprocess.run([sys.executable, "-c", write, file], env=os.environ | locale, check=True)
    assert read_tokens(file)["a"].hide == ("été",)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f'name = "a b"\nsha256 = "{HASH}"', "letters, digits"),
        ('name = "a"\nsha256 = "abc"', "64 hexadecimal digits"),
        (f'name = "a"\nsha256 = "{HASH}"\nexpires = 2030-01-01', "a time with a time zone"),
        (f'name = "a"\nsha256 = "{HASH}"\nexpires = 2030-01-01T00:00:00', "a time with a time zone"),
        (f'name = "a"\nsha256 = "{HASH}"\nread = "x >"', "expected read to be a filter"),
        (f'name = "a"\nsha256 = "{HASH}"\nreed = "x > 1"', "read"),
        (f'name = "a"\nsha256 = "{HASH}"\n[[token]]\nname = "a"\nsha256 = "{HASH}"', "each name once"),
    ],
)
def test_a_wrong_entry_is_refused_with_its_place(tmp_path: Path, text: str, says: str):
    (tmp_path / "t.toml").write_text(f"[[token]]\n{text}\n")
    with pytest.raises(BrokenCredentials, match=says):
        read_tokens(tmp_path / "t.toml")


def test_a_missing_file_is_refused(tmp_path: Path):
    with pytest.raises(BrokenCredentials, match="got none"):
        read_tokens(tmp_path / "t.toml")


@pytest.mark.parametrize("presented", ["", ".", "a", "a.", "a.Secret", "b.secret", ".secret", "a.secret.", "a.sécret"])
def test_only_the_right_secret_under_the_right_name_is_found(presented: str):
    tokens = {"a": Token("a", HASH)}
    assert find_token(tokens, presented, NOW) is None
    assert find_token(tokens, "a.secret", NOW) is tokens["a"]


def test_expired_and_revoked_tokens_are_not_found():
    second = datetime.timedelta(seconds=1)
    for token, is_found in (
        (Token("a", HASH, expires=NOW + second), True),
        (Token("a", HASH, expires=NOW), False),
        (Token("a", HASH, is_revoked=True), False),
        (Token("a", HASH, TokenRole.OPERATOR), True),
    ):
        assert (find_token({"a": token}, "a.secret", NOW) is not None) is is_found


def test_new_tokens_are_all_different():
    made = {new_token("feed") for _ in range(100)}
    assert len(made) == 100
    for text, secret_hash in made:
        assert hashlib.sha256(text.removeprefix("feed.").encode()).hexdigest() == secret_hash
    with pytest.raises(UsageError):
        new_token("fe.ed")


def test_a_file_is_read_again_when_it_changes_and_kept_while_it_is_wrong(tmp_path: Path):
    file, now_s = tmp_path / "f", [0.0]
    file.write_text("one")

    def read() -> str:
        text = file.read_text()
        if text == "wrong":
            raise BrokenCredentials("it is wrong")
        return text

    watched = Watched([file], read, lambda: now_s[0])
    file.write_text("three")
    assert watched.get() == "one", "it has just looked"
    now_s[0] += 2 * LOOK_S
    assert watched.get() == "three"
    file.write_text("wrong")
    now_s[0] += 2 * LOOK_S
    assert watched.get() == "three"
    assert watched.problem == "it is wrong"
    file.write_text("fourth")
    now_s[0] += 2 * LOOK_S
    assert watched.get() == "fourth"
    assert watched.problem == ""


def _owned_by_another(file: Path) -> tuple[int, int, int]:
    """Give a file another mode, and as root another owner; return its owner, group and mode."""
    file.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(file, 12345, 23456)
    return _ownership(file)


def _ownership(file: Path) -> tuple[int, int, int]:
    found = file.stat()
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)


def test_a_new_token_file_is_for_its_owner_and_a_changed_one_keeps_owner_and_mode(tmp_path: Path):
    file = tmp_path / "t.toml"
    write_tokens(file, [Token("a", HASH)])
    assert _ownership(file) == (os.geteuid(), os.getegid(), 0o600)
    before = _owned_by_another(file)
    with changing_tokens(file) as tokens:
        tokens["a"] = dataclasses.replace(tokens["a"], is_revoked=True)
    assert read_tokens(file)["a"].is_revoked
    assert _ownership(file) == before
    assert [each.name for each in tmp_path.iterdir()] == ["t.toml"]


def test_certificates_that_are_replaced_keep_owner_and_mode(tmp_path: Path):
    pytest.importorskip("cryptography")
    from octopia.security.certificates import Pair

    certificate, key = tmp_path / "b.pem", tmp_path / "b.key"
    Pair(b"one", b"first").write(certificate, key)
    assert (_ownership(certificate)[2], _ownership(key)[2]) == (0o644, 0o600)
    before = [_owned_by_another(each) for each in (certificate, key)]
    Pair(b"two", b"second").write(certificate, key, replace=True)
    assert (certificate.read_bytes(), key.read_bytes()) == (b"two", b"second")
    assert [_ownership(each) for each in (certificate, key)] == before


def test_a_file_whose_owner_cannot_be_kept_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "t.toml"
    write_tokens(file, [Token("a", HASH)])
    found = list(file.stat())
    found[stat.ST_UID] = 12345
    monkeypatch.setattr(Path, "stat", lambda _: os.stat_result(found))

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    with pytest.raises(
        UsageError, match=r"keep the owner of .* \(user 12345, .* run the command as this user or as root"
    ):
        write_tokens(file, [])
    monkeypatch.undo()
    assert list(read_tokens(file)) == ["a"]
    assert [each.name for each in tmp_path.iterdir()] == ["t.toml"]


def _add(file: Path, name: str) -> None:
    with changing_tokens(file) as tokens:
        tokens[name] = Token(name, HASH)


def test_commands_that_change_a_file_at_once_lose_nothing(tmp_path: Path):
    file, names = tmp_path / "t.toml", [f"t{number}" for number in range(24)]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda name: _add(file, name), names))
    assert sorted(read_tokens(file)) == sorted(names)


def _fail_to_add(file: Path) -> None:
    with changing_tokens(file) as tokens:
        tokens["a"] = Token("a", HASH)
        raise UsageError("expected another name")


def test_a_change_that_fails_writes_nothing(tmp_path: Path):
    with pytest.raises(UsageError, match="another name"):
        _fail_to_add(tmp_path / "t.toml")
    assert not (tmp_path / "t.toml").exists()
