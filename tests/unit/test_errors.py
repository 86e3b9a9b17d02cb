import inspect
import pickle

import pytest

from octopia import errors
from octopia.errors import InvalidFilter, InvariantBroken, OctopiaError, TimedOut


def test_the_tree_in_the_docstring_is_the_tree():
    drawn = {line.split("── ")[1].split()[0] for line in errors.__doc__.splitlines() if "── " in line}
    defined = {
        name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, OctopiaError)
    }
    assert drawn == defined - {"OctopiaError"}


def test_a_filter_error_shows_the_place():
    error = InvalidFilter("expected a value", "x > ?", 4)
    assert str(error) == "expected a value\n  x > ?\n      ^"


def test_a_filter_error_shows_only_the_line_in_question_shortened():
    text = "a = 1\n" + "b" * 300 + "?" + "c" * 300
    _, shown, caret = str(InvalidFilter("bad", text, 306)).splitlines()
    assert shown[caret.index("^")] == "?"
    assert len(shown) <= 102


def test_without_a_place_it_is_one_sentence():
    assert str(InvalidFilter("too large")) == "too large"


def test_a_broken_invariant_tells_how_it_came_about():
    assert str(InvariantBroken("bit lost")) == "bit lost"
    assert str(InvariantBroken("bit lost", ["one", "two"])).splitlines() == [
        "bit lost",
        "recent inputs, oldest first:",
        "  one",
        "  two",
    ]


@pytest.mark.parametrize("error", [InvalidFilter("s", "text", 1, ["a"]), InvariantBroken("s", ["i"]), TimedOut("s")])
def test_errors_survive_pickling(error: OctopiaError):
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert type(copy) is type(error)
