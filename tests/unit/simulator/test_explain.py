"""The story of a publication: why it went where it went, and why somebody did not get it."""

import pytest

from octopia.errors import UsageError
from octopia.scenario import load_scenario
from octopia.settings import Algorithm
from octopia.simulator.explain import explain_publication
from support import EXAMPLES, scenario_from

BASE = """
[overlay]
tree = "a-b"
clusters = 2
[[client]]
name = "P"
broker = "a.0"
advertise = ["symbol = 'IBM' AND price > 0"]
[[client]]
name = "S"
broker = "b.1"
subscribe = ["price > 10 AND symbol = 'IBM'", "volume > 5"]
"""


def event(text: str, client: str = "P") -> str:
    return f'[[event]]\nclient = "{client}"\n{text}\n'


def story(events: str, number: int = 0, base: str = BASE) -> list[str]:
    return explain_publication(scenario_from(base + events), number)


def example(name: str, algorithm: Algorithm = Algorithm.DYNAMIC) -> list[str]:
    return explain_publication(load_scenario(EXAMPLES / name).with_algorithm(algorithm), 0)


def test_a_delivered_publication_hop_by_hop():
    assert story(event("publish = {symbol = 'IBM', price = 12.5}")) == [
        "publication 0 by P: symbol = 'IBM', price = 12.5",
        "  at a.0, from P:",
        "    conforms to P/0, whose advertisement_civ is 11",
        "    clusters still to be reached: 1 (bits 10)",
        "    > a.1 over the iLink, for bit 1",
        "  at a.1, from a.0:",
        "    > b.1 over the aLink, wanted by S/0",
        "  at b.1, from a.1:",
        "    for S/0 here",
        "  S received it for S/0 over a.0 > a.1 > b.1 in 4 ms",
        "  S/1 did not get it: volume > 5 is unknown: the publication has no volume",
    ]


def test_a_refused_publication_names_the_predicate_that_failed():
    lines = story(event("publish = {symbol = 'IBM', price = -1}"))
    assert lines[1] == (
        "  refused: it conforms to none of its publisher's advertisements; "
        "the closest is (symbol = 'IBM' AND price > 0), which excludes price = -1"
    )
    assert lines[2].startswith("    P/0 (symbol = 'IBM' AND price > 0): price > 0 is false")
    assert not any(line.startswith("  at ") for line in lines)


def test_a_refused_publication_names_the_attribute_that_was_never_declared():
    lines = story(event("publish = {symbol = 'IBM', volume = 1}"))
    assert lines[2] == "    P/0 (symbol = 'IBM' AND price > 0): it does not declare volume"


def test_a_refused_publication_names_the_predicate_that_failed_also_behind_a_missing_attribute():
    lines = story(event("publish = {price = -1}"))
    assert "price > 0 is false" in lines[2]


def test_a_refused_publication_says_why_each_filter_of_an_or_does_not_fit():
    base = BASE.replace("symbol = 'IBM' AND price > 0", "symbol = 'IBM' OR price > 0")
    lines = story(event("publish = {symbol = 'IBM', price = 1}"), base=base)
    assert lines[1].startswith("  refused")
    assert not lines[2].rstrip().endswith(":")


def test_a_failing_predicate_is_named_with_the_value():
    lines = story(event("publish = {symbol = 'IBM', price = 3}"))
    (line,) = (line for line in lines if line.startswith("  S/0"))
    assert line == "  S/0 did not get it: price > 10 is false: price is 3"


def test_a_false_positive_is_named_where_it_happens():
    lines = story(event("publish = {symbol = 'IBM', price = 3}"))
    assert lines[lines.index("  at a.1, from a.0:") + 1] == "    nobody wants it here or beyond: a false positive"


def test_what_nobody_wants_is_no_false_positive_at_its_host_broker():
    alone = BASE[: BASE.index('[[client]]\nname = "S"')]
    lines = story(event("publish = {symbol = 'IBM', price = 3}"), base=alone)
    assert not any("false positive" in line for line in lines)


def test_a_subscription_that_was_not_in_force():
    events = event('unsubscribe = "S/0"', "S") + event("publish = {symbol = 'IBM', price = 12}")
    assert "  S/0 did not get it: it was not in force when the publication was made" in story(events)
    late = event("publish = {symbol = 'IBM', price = 12}") + event('subscribe = "price > 1"\nid = "late"', "S")
    assert "  late did not get it: it was not in force when the publication was made" in story(late)


def test_a_matching_subscription_of_a_refused_publication():
    lines = story(event("publish = {symbol = 'SAP', volume = 9}"))
    (line,) = (line for line in lines if line.startswith("  S/1"))
    assert "it matches, but the publication was refused" in line


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fig7b.toml", ["case I: ", "b.1 over the iLink, for bit 1, carrying 0001"]),
        ("fig7c.toml", ["case II: ", "c.3 over the aLink, wanted by S4/0, carrying 0101"]),
        ("fig7d.toml", ["case III: ", "b.2 over the iLink, for bit 2, carrying 0011"]),
    ],
)
def test_the_cases_of_fig_7_are_told(name: str, expected: list[str]):
    lines = example(name)
    host = lines[
        1 : lines.index(next(line for line in lines if line.startswith("  at ") and "b.3, from P" not in line))
    ]
    for text in expected:
        assert any(text in line for line in host)
    assert any("congested: " in line for line in host)


def test_static_routing_knows_no_cases():
    lines = example("fig7d.toml", Algorithm.STATIC)
    assert not any("case " in line or "carrying" in line for line in lines)


@pytest.mark.parametrize("number", [-1, 1, 99])
def test_a_publication_that_was_never_made(number: int):
    with pytest.raises(UsageError, match="from 0 to 0, got"):
        story(event("publish = {symbol = 'IBM', price = 3}"), number)


def test_a_scenario_without_publications():
    with pytest.raises(UsageError):
        story("")
