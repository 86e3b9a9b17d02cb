"""Random delays by message kind, and the keys by which a profile file sets them."""

import dataclasses
import random
import statistics
from pathlib import Path

import pytest

from octopia.errors import InvalidFile
from octopia.protocol import MessageKind
from octopia.simulator.delays import Hops, Law, RandomDelay
from octopia.simulator.profiles import PAPER, UNIT, Profile, find_profile, write_profile
from octopia.tid.messages import TidPublish
from support import RowList, advertise, publish, run_text

LINK_NS = 1_000_000
KIND = MessageKind.ADVERTISEMENT


def drawn_ms(hops: Hops | None, kind: str, draws: int = 20_000) -> list[float]:
    assert hops is not None
    chance = random.Random(1)
    return [hops.draw_ns(kind, LINK_NS, chance) / 1e6 for _ in range(draws)]


class TestLaws:
    def test_uniform_lies_between_0_and_twice_the_mean(self):
        found = drawn_ms(Hops({}, {KIND: RandomDelay(Law.UNIFORM, 0.25)}, 0.0), KIND)
        assert 0 <= min(found) < 0.001
        assert 0.499 < max(found) <= 0.5
        assert statistics.mean(found) == pytest.approx(0.25, rel=0.02)

    def test_exponential_has_its_mean_and_its_median_and_no_end(self):
        found = drawn_ms(Hops({}, {KIND: RandomDelay(Law.EXPONENTIAL, 0.25)}, 0.0), KIND)
        assert statistics.mean(found) == pytest.approx(0.25, rel=0.02)
        assert statistics.median(found) == pytest.approx(0.25 * 0.6931, rel=0.03)
        assert max(found) > 8 * 0.25

    def test_one_seed_gives_the_same_delays(self):
        hops = Hops({}, {KIND: RandomDelay(Law.EXPONENTIAL, 0.25)}, 0.0)
        assert drawn_ms(hops, KIND, 100) == drawn_ms(hops, KIND, 100)

    def test_a_mean_of_0_is_no_delay(self):
        assert drawn_ms(Hops({}, {KIND: RandomDelay(Law.EXPONENTIAL, 0.0)}, 0.0), KIND, 2) == [0.0, 0.0]


class TestKinds:
    def test_a_delay_replaces_that_of_the_link_and_jitter_is_added_to_it(self):
        hops = Hops({KIND: RandomDelay(Law.EXPONENTIAL, 0.5)}, {"civ_set": RandomDelay(Law.EXPONENTIAL, 0.5)}, 0.2)
        assert min(drawn_ms(hops, KIND)) >= 1.0
        assert min(drawn_ms(hops, MessageKind.CIV_SET)) < 0.01
        others = drawn_ms(hops, MessageKind.PUBLICATION)
        assert 1.0 <= min(others) < max(others) <= 1.2

    def test_a_law_of_a_kind_precedes_a_law_of_all(self):
        steady = RandomDelay(Law.UNIFORM, 0.0)
        hops = Hops({KIND: steady}, {"all": RandomDelay(Law.EXPONENTIAL, 0.5)}, 0.0)
        assert set(drawn_ms(hops, KIND, 10)) == {1.0}
        assert min(drawn_ms(hops, MessageKind.PUBLICATION)) < 0.01
        assert min(drawn_ms(hops, "")) < 0.01

    def test_without_laws_there_is_nothing_to_draw(self):
        assert UNIT.hops is None
        assert PAPER.hops is None

    def test_the_delay_of_a_whole_hop_includes_the_time_of_a_broker_for_any_message(self):
        profile = dataclasses.replace(PAPER, delay={KIND.value: RandomDelay(Law.EXPONENTIAL, 0.25)})
        flooded, copy = advertise("a.0", 0, "x > 0"), publish("a.0", 0, x=1)
        assert profile.service_us(flooded, 0, 10) == 10 * PAPER.intersect_per_entry_us
        assert profile.service_us(copy, 0, 0) == PAPER.service_us(copy, 0, 0)
        everything = dataclasses.replace(PAPER, delay={"all": RandomDelay(Law.EXPONENTIAL, 0.25)})
        assert everything.service_us(copy, 0, 0) == PAPER.match_us + PAPER.select_us
        assert TidPublish.kind == copy.kind


LINE = """
[overlay]
tree = "path:3"
clusters = 2
[[client]]
name = "P"
broker = "a.0"
advertise = ["x > 0"]
[[client]]
name = "S"
broker = "c.1"
subscribe = ["x > 0"]
[[event]]
client = "P"
publish = { x = 1 }
count = 50
every_ms = 0.5
"""

RANDOM = dataclasses.replace(UNIT, delay={"publication": RandomDelay(Law.EXPONENTIAL, 5.0)})


@pytest.mark.parametrize("links", ["ideal", "session"])
class TestRuns:
    def play(self, links: str, seed: int = 0, profile: Profile = RANDOM) -> list[tuple[int, float]]:
        rows = RowList()
        run = run_text(f'{LINE}[simulator]\nlinks = "{links}"\n', profile=profile, seed=seed, sinks=[rows])
        assert run.complaints() == []
        return [(row.publication, row.time_ms) for row in rows.rows if row.event == "deliver"]

    def test_links_keep_their_order(self, links):
        assert [number for number, _ in self.play(links)] == list(range(50))

    def test_one_seed_gives_one_run(self, links):
        assert self.play(links, 1) == self.play(links, 1) != self.play(links, 2)

    def test_other_kinds_keep_their_delays(self, links):
        still = dataclasses.replace(UNIT, delay={"advertisement": RandomDelay(Law.EXPONENTIAL, 5.0)})
        first, last = (self.play(links, profile=still)[each] for each in (0, -1))
        assert last[1] - first[1] == pytest.approx(49 * 0.5)


class TestFiles:
    def read(self, folder: Path, text: str) -> Profile:
        path = folder / "mine.toml"
        path.write_text(text)
        return find_profile(str(path))

    def test_tables_name_the_kinds(self, tmp_path):
        text = '[delay.advertisement]\nlaw = "exponential"\nmean_ms = 0.25\n[jitter.all]\nlaw = "uniform"\nmean_ms = 1'
        profile = self.read(tmp_path, text)
        assert profile.delay == {"advertisement": RandomDelay(Law.EXPONENTIAL, 0.25)}
        assert profile.jitter == {"all": RandomDelay(Law.UNIFORM, 1.0)}

    @pytest.mark.parametrize("name", ["paper-race-trees", "paper-broker-sender-race-trees"])
    def test_a_profile_is_read_as_it_was_written(self, tmp_path, name):
        profile = find_profile(name)
        assert find_profile(str(write_profile(profile, tmp_path))) == profile
        assert profile.assumptions()["delay.advertisement.law"] == "exponential"
        assert profile.assumptions()["delay.advertisement.mean_ms"] == 0.25

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ('[delay.advert]\nlaw = "uniform"\nmean_ms = 1\n', 'got "advert" (did you mean "advertisement"?)'),
            ('[delay.sync]\nlaw = "normal"\nmean_ms = 1\n', "expected law to be one of uniform, exponential"),
            ('[delay.sync]\nlaw = "uniform"\n', 'expected the key "mean_ms", got none'),
            ('[delay.sync]\nlaw = "uniform"\nmean_ms = -1\n', "expected mean_ms to be a finite number of at least 0"),
            (
                '[delay.sync]\nlaw = "uniform"\nmean_ms = 1\n[jitter.sync]\nlaw = "uniform"\nmean_ms = 1\n',
                "expected [jitter.sync] or [delay.sync], which replaces it, got both",
            ),
            (
                'jitter_ms = 1\n[jitter.all]\nlaw = "uniform"\nmean_ms = 1\n',
                "expected jitter_ms or a law for all kinds, which replaces it, got both",
            ),
            ('sender = "cluster"\n', "expected sender to be one of link, broker, machine"),
        ],
    )
    def test_errors_name_the_table(self, tmp_path, text, says):
        with pytest.raises(InvalidFile) as caught:
            self.read(tmp_path, text)
        assert str(caught.value).startswith("mine.toml")
        assert says in str(caught.value)
