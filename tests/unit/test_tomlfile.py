import enum
from pathlib import Path

import pytest

from octopia.errors import InvalidFile
from octopia.tomlfile import Table, read_toml


class Colour(enum.StrEnum):
    RED = "red"
    GREEN = "green"


def read(tmp_path: Path, text: str) -> Table:
    path = tmp_path / "some.toml"
    path.write_text(text, encoding="utf-8")
    return read_toml(path)


def refused(call, *args, **kwargs) -> str:
    with pytest.raises(InvalidFile) as caught:
        call(*args, **kwargs)
    return str(caught.value)


def test_values_are_returned_as_they_are_written(tmp_path: Path):
    table = read(
        tmp_path,
        'text = "x"\nwhole = 3\nreal = 2.5\nyes = true\nlist = ["a", "b"]\ncolour = "red"\n[sub]\n[[many]]\n[[many]]\n',
    )
    assert table.text("text") == "x"
    assert table.integer("whole", minimum=3, maximum=3) == 3
    assert table.number("whole") == 3.0
    assert isinstance(table.number("whole"), float)
    assert table.number("real", above=2, minimum=2.5) == 2.5
    assert table.boolean("yes") is True
    assert table.texts("list") == ("a", "b")
    assert table.pair("list") == ("a", "b")
    assert table.choice("colour", Colour) is Colour.RED
    assert table.raw("real") == 2.5
    assert table.table("sub") is not None
    assert len(table.tables("many")) == 2
    assert list(table) == ["text", "whole", "real", "yes", "list", "colour", "sub", "many"]
    table.finish()


def test_defaults_stand_in_for_missing_keys_only():
    table = Table({"given": "x"}, "here")
    assert table.text("given", "other") == "x"
    assert table.text("missing", None) is None
    assert table.integer("missing", 7, minimum=9) == 7
    assert table.number("missing", 1.5) == 1.5
    assert table.boolean("missing", True) is True
    assert table.choice("missing", Colour, Colour.GREEN) is Colour.GREEN
    assert table.raw("missing", None) is None
    assert table.texts("missing") == ()
    assert table.table("missing") is None
    assert table.tables("missing") == []
    assert not table.has("missing")


@pytest.mark.parametrize("getter", ["text", "integer", "number", "boolean", "raw", "pair"])
def test_missing_required_key(getter: str):
    table = Table({}, "some.toml")
    assert refused(getattr(table, getter), "tree") == 'some.toml: expected the key "tree", got none'


def test_missing_key_points_at_the_slip():
    assert refused(Table({"tre": "a-b"}, "f").text, "tree") == 'f: expected the key "tree", got none (is "tre" a typo?)'


@pytest.mark.parametrize(
    ("getter", "value", "message"),
    [
        ("text", 3, "expected key to be a string, got 3"),
        ("text", True, "expected key to be a string, got true"),
        ("integer", True, "expected key to be an integer, got true"),
        ("integer", 3.0, "expected key to be an integer, got 3.0"),
        ("integer", "3", 'expected key to be an integer, got the string "3"'),
        ("integer", 2**63, "expected key to be an integer of 64 bits, got 9223372036854775808"),
        ("number", False, "expected key to be a finite number, got false"),
        ("number", float("nan"), "expected key to be a finite number, got nan"),
        ("number", float("-inf"), "expected key to be a finite number, got -inf"),
        ("number", 10**400, "expected key to be a finite number, got 1000"),
        ("number", [], "expected key to be a finite number, got a list"),
        ("boolean", 1, "expected key to be true or false, got 1"),
        ("texts", "a", 'expected key to be a list of strings, got the string "a"'),
        ("texts", ["a", 1], "expected key to be a list of strings, got a list"),
        ("pair", ["a"], "expected key to be a list of two strings, got a list"),
        ("pair", ["a", 1], "expected key to be a list of two strings, got a list"),
        ("pair", "ab", 'expected key to be a list of two strings, got the string "ab"'),
        ("table", [{}], "expected key to be a table, got a list of tables"),
        ("tables", {}, "expected key to be an array of tables, written [[key]], got a table"),
        ("tables", [1], "expected key to be an array of tables, written [[key]], got a list"),
    ],
)
def test_wrong_types(getter: str, value: object, message: str):
    assert message in refused(getattr(Table({"key": value}, "here"), getter), "key")


def test_limits():
    table = Table({"n": 5, "x": 0.0}, "here")
    assert refused(table.integer, "n", minimum=6) == "here: expected n to be an integer of at least 6, got 5"
    assert refused(table.integer, "n", maximum=4) == "here: expected n to be an integer of at most 4, got 5"
    assert "from 1 to 4" in refused(table.integer, "n", minimum=1, maximum=4)
    assert refused(table.number, "x", above=0) == "here: expected x to be a finite number above 0, got 0.0"
    assert table.number("x", minimum=0) == 0.0
    assert "at least 0.1" in refused(table.number, "x", minimum=0.1)


def test_choice_lists_the_choices_and_suggests_one():
    sentence = refused(Table({"colour": "gren"}, "here").choice, "colour", Colour)
    assert sentence == 'here: expected colour to be one of red, green, got the string "gren" (did you mean "green"?)'
    assert "got 1" in refused(Table({"colour": 1}, "here").choice, "colour", Colour)


def test_dates_and_long_texts_are_described_shortly(tmp_path: Path):
    table = read(tmp_path, f'when = 2020-01-01\nlong = "{"x" * 500}"\n')
    assert refused(table.text, "when").endswith("got a date or time")
    assert len(refused(table.integer, "long")) < 150


def test_unknown_keys_are_refused_with_a_suggestion():
    table = Table({"cluster": 4}, "overlay.toml")
    table.integer("clusters", 1)
    table.text("tree", "a")
    assert refused(table.finish) == (
        'overlay.toml: expected one of the keys clusters, tree, got "cluster" (did you mean "clusters"?)'
    )


def test_finishing_reaches_the_tables_taken_from_a_table(tmp_path: Path):
    table = read(tmp_path, "[overlay]\n[overlay.routing]\nodd = 1\n")
    table.table("overlay").table("routing")
    assert refused(table.finish) == 'some.toml, [overlay.routing]: expected one of the keys (none), got "odd"'


def test_places(tmp_path: Path):
    table = read(tmp_path, '[[client]]\n[[client]]\npublish = {}\n[brokers."b.3"]\n[[overlay.link]]\n')
    clients = table.tables("client")
    assert [each.place for each in clients] == ["some.toml, [[client]] number 1", "some.toml, [[client]] number 2"]
    assert clients[1].table("publish").place == "some.toml, [[client]] number 2, [publish]"
    assert table.table("brokers").table("b.3").place == 'some.toml, [brokers."b.3"]'
    assert table.table("overlay").tables("link")[0].place == "some.toml, [[overlay.link]] number 1"


def test_file_errors(tmp_path: Path):
    assert refused(read_toml, tmp_path / "no.toml").endswith("no.toml, got none")
    assert refused(read_toml, tmp_path).endswith("got a directory")
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    assert refused(read_toml, tmp_path / "latin.toml") == "latin.toml: expected UTF-8, got the byte 0xe9"


def test_a_file_below_a_file_is_unreadable(tmp_path: Path):
    (tmp_path / "file").write_text("")
    assert "expected a readable file" in refused(read_toml, tmp_path / "file" / "other.toml")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a = 1\nb = = 2\n", "some.toml, line 2, column 5: expected TOML, got: Invalid value"),
        ("a = 1\na = 2\n", "some.toml, line 2, column"),
        ('a = """x', "some.toml, line 1, column 9: expected TOML, got: "),
        ("a = 1\n\nb = [", "some.toml, line 3, column 6: expected TOML, got: "),
        ("a = " + "[" * 100_000, "nested too deep"),
        ("a = " + "1" * 10_000, "number out of range"),
    ],
)
def test_syntax_errors_name_line_and_column(tmp_path: Path, text: str, place: str):
    path = tmp_path / "some.toml"
    path.write_text(text)
    assert place in refused(read_toml, path)


def test_byte_order_mark_is_no_error(tmp_path: Path):
    (tmp_path / "bom.toml").write_bytes(b'\xef\xbb\xbfa = "x"')
    assert read_toml(tmp_path / "bom.toml").text("a") == "x"
