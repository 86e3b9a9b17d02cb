import dataclasses
from pathlib import Path

import pytest

from octopia.content import Publication
from octopia.errors import InvalidFile, UsageError
from octopia.ids import PublicationId, SubscriptionId
from octopia.protocol.messages import CivSet, Deliver, Message, PublishRequest, Unsubscribe, Version
from octopia.simulator.delays import ALL_KINDS, Law, RandomDelay
from octopia.simulator.profiles import PAPER, PAPER_RACE_TREES, UNIT, Profile, find_profile
from octopia.simulator.wires import occupation_ns
from support import advertise, at, offer, pub, publish, say, subscribe, want

PAID = Publication({"x": 1}, b"12345")

COSTLY = Profile(
    "costly",
    "",
    message_us=1000.0,
    match_us=100.0,
    match_per_subscription_us=10.0,
    select_us=1.0,
    intersect_per_entry_us=0.5,
)


def test_profiles_are_found_by_name():
    assert find_profile("unit") is UNIT
    assert find_profile("paper") is PAPER


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match=r'unit, paper, paper-.*, or a \.toml file, got "fast"'):
        find_profile("fast")


def test_in_the_unit_profile_brokers_take_no_time():
    assert not UNIT.brokers_take_time
    assert PAPER.brokers_take_time
    assert Profile("p", "", select_us=1.0).brokers_take_time
    assert Profile("p", "", intersect_per_entry_us=1.0).brokers_take_time


@pytest.mark.parametrize(
    ("message", "expected_us"),
    [
        (publish("a.0", 0, x=1), 1000 + 100 + 10 * 6 + 1),
        (say(0, x=1), 1000 + 100 + 10 * 6 + 1),
        (subscribe("a.0", 0, "x > 0"), 1000 + 0.5 * 4),
        (want(0, "x > 0"), 1000 + 0.5 * 4),
        (Unsubscribe(SubscriptionId(at("a.0"), 1, 0)), 1000 + 0.5 * 4),
        (advertise("a.0", 0, "x > 0"), 1000 + 0.5 * 6),
        (offer(0, "x > 0"), 1000 + 0.5 * 6),
        (CivSet((), Version(1, 1)), 1000),
    ],
)
def test_what_a_message_costs_a_broker_depends_on_the_table_it_searches(message: Message, expected_us: float):
    assert COSTLY.service_us(message, advertisements=4, subscriptions=6) == expected_us


def test_a_publication_of_a_neighbour_costs_the_same_however_it_is_asked():
    for profile in (
        COSTLY,
        PAPER,
        PAPER_RACE_TREES,
        dataclasses.replace(COSTLY, delay={ALL_KINDS: RandomDelay(Law.UNIFORM, 1.0)}),
    ):
        for subscriptions in (0, 6, 2500):
            expected_us = profile.service_us(publish("a.0", 0, x=1), 4, subscriptions)
            assert profile.publication_us(subscriptions) == expected_us
    assert COSTLY.publication_us(6) > 0


def test_only_publications_occupy_a_link():
    message = publish("a.0", 0, x=1)
    delivery = Deliver(PublicationId(at("a.0"), 1, 0), pub(x=1), (0,), 0, 0.0)
    assert occupation_ns(0, 8.0, message) == occupation_ns(0, 8.0, delivery) == 50_000
    assert occupation_ns(0, 8.0, subscribe("a.0", 0, "x > 0")) == 0
    assert occupation_ns(7, 0.0, message) == 7


def test_the_size_of_a_publication_grows_with_names_texts_and_payload():
    sizes = [PublishRequest(0, each, 0.0).size_bytes for each in (pub(x=1), pub(name="abc"), PAID)]
    assert sizes == [50, 47, 55]


class TestFromAFile:
    def write(self, folder: Path, text: str) -> str:
        path = folder / "mine.toml"
        path.write_text(text)
        return str(path)

    def test_what_is_left_out_costs_nothing(self, tmp_path: Path):
        profile = find_profile(self.write(tmp_path, "link_delay_ms = 2\nmachines = 3\n"))
        assert profile == Profile(
            "mine", "read from mine.toml: link_delay_ms = 2.0, machines = 3", link_delay_ms=2.0, machines=3
        )

    def test_every_cost_can_be_given(self, tmp_path: Path):
        costs = {key: value for key, value in PAPER.assumptions().items() if key not in ("name", "description")}
        costs["jitter_ms"] = 0.5
        text = 'name = "n"\ndescription = "d"\n' + "".join(f"{key} = {value}\n" for key, value in costs.items())
        assert find_profile(self.write(tmp_path, text)).assumptions() == {"name": "n", "description": "d", **costs}

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("link_dely_ms = 1\n", 'got "link_dely_ms" (did you mean "link_delay_ms"?)'),
            ("link_delay_ms = -1\n", "expected link_delay_ms to be a finite number of at least 0, got -1"),
            ("jitter_ms = nan\n", "expected jitter_ms to be a finite number of at least 0, got nan"),
            ('match_us = "fast"\n', 'got the string "fast"'),
            ("machines = 1.5\n", "expected machines to be an integer of at least 0, got 1.5"),
            ("name = \n", "line 1, column"),
        ],
    )
    def test_errors_name_the_file_and_the_key(self, tmp_path: Path, text: str, says: str):
        with pytest.raises(InvalidFile) as caught:
            find_profile(self.write(tmp_path, text))
        assert str(caught.value).startswith("mine.toml")
        assert says in str(caught.value)

    def test_a_missing_file(self, tmp_path: Path):
        with pytest.raises(InvalidFile, match="got none"):
            find_profile(str(tmp_path / "none.toml"))
