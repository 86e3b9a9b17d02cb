"""Reading scenario files: every key, and every error with its place."""

from pathlib import Path

import pytest

from octopia.broker import Verdict
from octopia.content import parse_filter
from octopia.errors import InvalidFile, UsageError
from octopia.overlay import LinkShape
from octopia.scenario import (
    AdvertiseItem,
    CrashItem,
    CutItem,
    HealItem,
    LinkChange,
    LinkModel,
    PublishItem,
    RestartItem,
    SimulatorSettings,
    SlowItem,
    SubscribeItem,
    UnadvertiseItem,
    UnsubscribeItem,
    load_scenario,
)
from octopia.settings import PAPER_ROUTING, Algorithm, RoutingSettings
from support import at, pub, scenario_from

OVERLAY = '[overlay]\ntree = "a-b"\nclusters = 2\n'
CLIENT = '[[client]]\nname = "C"\nbroker = "a.0"\n'
BASE = OVERLAY + CLIENT


def event(text: str) -> str:
    return f"{BASE}[[event]]\n{text}\n"


def item_of(text: str) -> object:
    (only,) = scenario_from(event(text)).events
    return only.item


class TestKeys:
    def test_the_least_that_can_be_said(self):
        scenario = scenario_from(OVERLAY)
        assert scenario.name == "scenario"
        assert scenario.routing == PAPER_ROUTING == RoutingSettings(Algorithm.DYNAMIC)
        assert (scenario.clients, scenario.links, scenario.events) == ((), (), ())
        assert scenario.routing.confirmations
        assert scenario.simulator == SimulatorSettings("unit", 0, LinkModel.AUTO, 0.0, 0.0, 0.0, 0, None)

    def test_name_routing_and_simulator(self):
        scenario = scenario_from(
            'name = "n"\n'
            + OVERLAY
            + '[routing]\nalgorithm = "static"\ntau = 3\nwindow_ms = 7.5\nconfirmations = false\n'
            '[simulator]\nprofile = "paper"\nseed = 9\n'
        )
        assert scenario.name == "n"
        assert scenario.routing == RoutingSettings(Algorithm.STATIC, 3.0, 7.5, confirmations=False)
        assert scenario.simulator == SimulatorSettings("paper", 9)

    def test_the_times_of_adaptive_routing(self):
        text = OVERLAY + "[overlay.routing]\nwait_ms = 20\nprobe_ms = 900\n"
        scenario = scenario_from(text + '[routing]\nalgorithm = "adaptive"\nhold_ms = 0\nprobe_ms = 1.5\n')
        assert scenario.routing == RoutingSettings(Algorithm.ADAPTIVE, wait_ms=20.0, hold_ms=0.0, probe_ms=1.5)

    def test_everything_about_links_that_fail(self):
        scenario = scenario_from(
            OVERLAY + '[simulator]\nlinks = "session"\ndrop = 0.5\nduplicate = 0.25\nreorder = 0\n'
            "queue_capacity = 7\nwindow_bytes = 4096\n"
        )
        assert scenario.simulator == SimulatorSettings(
            links=LinkModel.SESSION, drop=0.5, duplicate=0.25, reorder=0.0, queue_capacity=7, window_bytes=4096
        )

    def test_the_routing_of_the_overlay_is_the_default(self):
        text = OVERLAY + '[overlay.routing]\nalgorithm = "static"\ntau = 4\n'
        assert scenario_from(text).routing == RoutingSettings(Algorithm.STATIC, 4.0)
        assert scenario_from(text + "[routing]\ntau = 5\n").routing == RoutingSettings(Algorithm.STATIC, 5.0)

    def test_an_overlay_file_is_found_beside_the_scenario(self, tmp_path: Path):
        (tmp_path / "overlay.toml").write_text('name = "two"\ntree = "a-b"\nclusters = 2\n')
        path = tmp_path / "mine.toml"
        path.write_text('[overlay]\nfile = "overlay.toml"\n' + CLIENT)
        scenario = load_scenario(path)
        assert scenario.name == "mine"
        assert scenario.overlay.name == "two"

    @pytest.mark.parametrize(
        ("routing", "algorithm", "tau"),
        [("", "dynamic", 10.0), ("[routing]\ntau = 4\n", "dynamic", 4.0),
         ('[routing]\nalgorithm = "adaptive"\n', "adaptive", 10.0)],
    )  # fmt: skip
    def test_an_overlay_file_without_an_algorithm_leaves_a_scenario_its_own_default(
        self, tmp_path: Path, routing: str, algorithm: str, tau: float
    ):
        (tmp_path / "overlay.toml").write_text('tree = "a-b"\nclusters = 2\n' + routing)
        (tmp_path / "mine.toml").write_text('[overlay]\nfile = "overlay.toml"\n')
        assert load_scenario(tmp_path / "mine.toml").routing == RoutingSettings(Algorithm(algorithm), tau)

    def test_clients_with_their_lists(self):
        text = OVERLAY + CLIENT + 'advertise = ["x > 0", "y > 0"]\nsubscribe = ["x > 5"]\nordered = true\n'
        (client,) = scenario_from(text).clients
        assert (client.name, client.broker) == ("C", at("a.0"))
        assert client.items == (
            AdvertiseItem("C", "C/0", "x > 0", parse_filter("x > 0"), ordered=True),
            AdvertiseItem("C", "C/1", "y > 0", parse_filter("y > 0"), ordered=True),
            SubscribeItem("C", "C/2", "x > 5", parse_filter("x > 5")),
        )

    def test_filters_may_be_tuples(self):
        (client,) = scenario_from(OVERLAY + CLIENT + 'subscribe = ["[x,>,5]"]\n').clients
        assert client.items[0].interest == parse_filter("x > 5")

    def test_links_in_both_directions_or_one(self):
        between, one = scenario_from(
            OVERLAY + '[[link]]\nbetween = ["a.0", "a.1"]\ncongested = true\nqueue_length = 20\n'
            '[[link]]\nfrom = "a.0"\nto = "b.0"\nrate = 50\ndelay_ms = 2\n'
        ).links
        pair = ((at("a.0"), at("a.1")), (at("a.1"), at("a.0")))
        assert between == LinkChange(pair, Verdict.CONGESTED, 20)
        assert one == LinkChange(((at("a.0"), at("b.0")),), shape=LinkShape(50.0, 2.0))

    @pytest.mark.parametrize(
        ("value", "verdict"),
        [("true", Verdict.CONGESTED), ("false", Verdict.FREE), ('"auto"', Verdict.AUTO)],
    )
    def test_verdicts(self, value: str, verdict: Verdict):
        (link,) = scenario_from(OVERLAY + f'[[link]]\nbetween = ["a.0", "a.1"]\ncongested = {value}\n').links
        assert link.verdict is verdict

    def test_events(self):
        assert item_of('client = "C"\npublish = {x = 1, s = "t", f = 1.5, b = true}') == PublishItem(
            "C", pub(x=1, s="t", f=1.5, b=True)
        )
        assert item_of('client = "C"\nadvertise = "x > 0"\nordered = true\nid = "ad"') == AdvertiseItem(
            "C", "ad", "x > 0", parse_filter("x > 0"), ordered=True
        )
        assert item_of('client = "C"\nsubscribe = "x > 0"\nid = "sub"') == SubscribeItem(
            "C", "sub", "x > 0", parse_filter("x > 0")
        )
        assert item_of('client = "C"\nunadvertise = "ad"') == UnadvertiseItem("C", "ad")
        assert item_of('client = "C"\nunsubscribe = "sub"') == UnsubscribeItem("C", "sub")
        assert item_of('client = "C"\nslow = 2.5') == SlowItem("C", 2.5)
        assert item_of('link = {from = "a.0", to = "a.1", congested = "auto"}') == LinkChange(
            ((at("a.0"), at("a.1")),), Verdict.AUTO
        )

    def test_faults(self):
        assert item_of('crash = "a.0"') == CrashItem(at("a.0"))
        assert item_of('restart = "b.1"') == RestartItem(at("b.1"))
        assert item_of('cut = ["a.0", "a.1"]') == CutItem((at("a.0"), at("a.1")))
        assert item_of('heal = ["b.0", "a.0"]') == HealItem((at("b.0"), at("a.0")))

    def test_a_publication_may_be_repeated(self):
        item = item_of('client = "C"\npublish = {x = 1}\ncount = 3\nevery_ms = 2.5')
        assert item == PublishItem("C", pub(x=1), 3, 2.5)

    def test_an_event_may_have_a_time(self):
        scenario = scenario_from(event('client = "C"\npublish = {x = 1}\nat_ms = 12.5'))
        assert [(each.at_ms, each.after_ms) for each in scenario.events] == [(12.5, None)]
        scenario = scenario_from(event('crash = "a.0"\nafter_ms = 3'))
        assert [(each.at_ms, each.after_ms) for each in scenario.events] == [(None, 3.0)]
        assert scenario_from(event('client = "C"\npublish = {x = 1}')).events[0].at_ms is None

    def test_nested_tables_become_dotted_attributes(self):
        item = item_of('client = "C"\npublish = {a.b.c = 1, a.d = 2, e = {f = 3}}')
        assert item == PublishItem("C", pub(**{"a.b.c": 1, "a.d": 2, "e.f": 3}))

    def test_default_ids_count_over_lists_and_events_per_client(self):
        text = OVERLAY + CLIENT + 'subscribe = ["x > 0"]\nadvertise = ["x > 0"]\n'
        text += '[[client]]\nname = "D"\nbroker = "b.1"\nsubscribe = ["y > 0"]\n'
        for client, more in (
            ("C", 'subscribe = "x > 1"'),
            ("D", 'subscribe = "x > 2"\nid = "own"'),
            ("D", 'advertise = "z > 0"'),
        ):
            text += f'[[event]]\nclient = "{client}"\n{more}\n'
        scenario = scenario_from(text)
        assert [item.id for client in scenario.clients for item in client.items] == ["C/0", "C/1", "D/0"]
        assert [each.item.id for each in scenario.events] == ["C/2", "own", "D/2"]

    def test_with_algorithm_changes_nothing_else(self):
        scenario = scenario_from(BASE + "[routing]\ntau = 3\n")
        changed = scenario.with_algorithm(Algorithm.STATIC)
        assert changed.routing == RoutingSettings(Algorithm.STATIC, 3.0)
        assert (changed.clients, changed.overlay) == (scenario.clients, scenario.overlay)


ERRORS = {
    "no overlay": (CLIENT, "scenario.toml: expected an [overlay] table, got none"),
    "a misspelt key at the top": (BASE + "[[evnt]]\n", 'got "evnt" (did you mean "event"?)'),
    "a misspelt key of a client": (BASE + 'subscrib = ["x > 0"]', "[[client]] number 1: expected one of the keys"),
    "a misspelt required key": (OVERLAY + '[[client]]\nname = "C"\nbrokr = "a.0"', '(is "brokr" a typo?)'),
    "a misspelt key of an event": (event('client = "C"\npublish = {x = 1}\ncuont = 2'), '(did you mean "count"?)'),
    "a misspelt key of a link": (
        OVERLAY + '[[link]]\nbetween = ["a.0", "a.1"]\ncongestd = true\nrate = 1',
        '"congested"?)',
    ),
    "a misspelt key of routing": (BASE + "[routing]\ntaw = 1", "[routing]: expected one of the keys"),
    "a misspelt algorithm": (BASE + '[routing]\nalgorithm = "dynamc"', '(did you mean "dynamic"?)'),
    "a misspelt key of the simulator": (BASE + '[simulator]\nprofil = "unit"', '(did you mean "profile"?)'),
    "an unknown client": (event('client = "X"\npublish = {x = 1}'), 'expected client to be one of C, got "X"'),
    "an event without a client": (event("publish = {x = 1}"), 'expected the key "client"'),
    "a client twice": (BASE + CLIENT, '[[client]] number 2: expected a unique, non-empty client name, got "C"'),
    "a client without a name": (OVERLAY + '[[client]]\nname = ""\nbroker = "a.0"', "a unique, non-empty client name"),
    "an unknown broker": (
        OVERLAY + '[[client]]\nname = "C"\nbroker = "z.0"',
        "expected a broker of this overlay, got z.0",
    ),
    "a broker beyond the clusters": (OVERLAY + '[[client]]\nname = "C"\nbroker = "a.2"', "from a.0 to a.1, got a.2"),
    "a malformed broker": (OVERLAY + '[[client]]\nname = "C"\nbroker = "a"', "such as b.3, got 'a'"),
    "no neighbours": (
        OVERLAY + '[[link]]\ncongested = true\nbetween = ["a.0", "b.1"]',
        "[[link]] number 1: expected two neighbours",
    ),
    "an unknown broker of a link": (
        OVERLAY + '[[link]]\ncongested = true\nbetween = ["a.0", "z.1"]',
        "[[link]] number 1: expected a broker",
    ),
    "a link without ends": (OVERLAY + "[[link]]\ncongested = true", 'expected either "between" or "from" and "to"'),
    "a link about which nothing is said": (OVERLAY + '[[link]]\nbetween = ["a.0", "a.1"]', "expected one of congested"),
    "a strange verdict": (OVERLAY + '[[link]]\nbetween = ["a.0", "a.1"]\ncongested = "yes"', 'true, false or "auto"'),
    "a negative queue": (OVERLAY + '[[link]]\nbetween = ["a.0", "a.1"]\nqueue_length = -1', "of at least 0, got -1"),
    "a rate of nothing": (OVERLAY + '[[link]]\nbetween = ["a.0", "a.1"]\nrate = 0', "a finite number above 0, got 0"),
    "a given id twice": (
        event('client = "C"\nsubscribe = "x > 0"\nid = "s"') + '[[event]]\nclient = "C"\nadvertise = "x > 0"\nid = "s"',
        '[[event]] number 2: expected a unique id, got "s", which is already used in scenario.toml, [[event]] number 1',
    ),
    "an id that a default has": (
        BASE + 'subscribe = ["x > 0"]\n[[event]]\nclient = "C"\nsubscribe = "x > 1"\nid = "C/0"',
        'got "C/0", which is already used in scenario.toml, [[client]] number 1',
    ),
    "an id of a publication": (event('client = "C"\npublish = {x = 1}\nid = "p"'), 'got "id"'),
    "an id in a client table": (BASE + 'subscribe = ["x > 0"]\nid = "s"', 'got "id"'),
    "a bad filter in a list": (BASE + 'subscribe = ["x > 0", "x >"]', "[[client]] number 1, subscribe number 2: "),
    "a bad filter in an event": (event('client = "C"\nadvertise = "x >"'), "[[event]] number 1, advertise: "),
    "a list of filters in an event": (
        event('client = "C"\nsubscribe = ["x > 0"]'),
        "expected subscribe to be a string",
    ),
    "NaN in a publication": (event('client = "C"\npublish = {x = nan}'), "[[event]] number 1, publish: "),
    "a date in a publication": (event('client = "C"\npublish = {x = 2020-01-01}'), "[[event]] number 1, publish: "),
    "a list in a publication": (event('client = "C"\npublish = {x = [1]}'), "[[event]] number 1, publish: "),
    "an empty publication": (event('client = "C"\npublish = {}'), "[[event]] number 1, publish: "),
    "a publication that is no table": (
        event('client = "C"\npublish = 3'),
        "expected publish to be a table of attributes",
    ),
    "an attribute twice": (
        event('client = "C"\npublish = {a = {b = 1}, "a.b" = 2}'),
        'once in publish, got "a.b" twice',
    ),
    "an attribute beyond 64 bits": (event(f'client = "C"\npublish = {{x = {2**63}}}'), "[[event]] number 1, publish: "),
    "two kinds": (event('client = "C"\npublish = {x = 1}\nsubscribe = "x > 0"'), "got publish and subscribe"),
    "no kind": (event('client = "C"'), "got none of them"),
    "no repetition": (event('client = "C"\npublish = {x = 1}\ncount = 0'), "an integer of at least 1, got 0"),
    "a negative pause": (event('client = "C"\npublish = {x = 1}\nevery_ms = -1'), "expected every_ms to be"),
    "a negative time": (event('client = "C"\npublish = {x = 1}\nat_ms = -1'), "expected at_ms to be"),
    "NaN for a time": (event('client = "C"\npublish = {x = 1}\nat_ms = nan'), "expected at_ms to be a finite number"),
    "a client for a link": (event('client = "C"\nlink = {between = ["a.0", "a.1"], rate = 1}'), 'got "client"'),
    "two times": (event('crash = "a.0"\nat_ms = 1\nafter_ms = 1'), "expected at_ms or after_ms, got both"),
    "a negative time after": (event('crash = "a.0"\nafter_ms = -1'), "expected after_ms to be"),
    "an unknown broker that crashes": (event('crash = "z.0"'), "expected a broker of this overlay, got z.0"),
    "a malformed broker that crashes": (event('crash = "a"'), "such as b.3, got 'a'"),
    "an unknown broker that restarts": (event('restart = "a.2"'), "from a.0 to a.1, got a.2"),
    "a list of brokers that crash": (event('crash = ["a.0"]'), "expected crash to be a string"),
    "a cut between strangers": (event('cut = ["a.0", "b.1"]'), "[[event]] number 1: expected two neighbours"),
    "a cut at an unknown broker": (event('cut = ["a.0", "z.0"]'), "[[event]] number 1: expected a broker"),
    "a cut with one end": (event('cut = ["a.0"]'), "[[event]] number 1: expected cut"),
    "healing between strangers": (event('heal = ["a.0", "b.1"]'), "[[event]] number 1: expected two neighbours"),
    "a client that crashes": (event('client = "C"\ncrash = "a.0"'), 'got "client"'),
    "a client that is infinitely slow": (event('client = "C"\nslow = 0'), "expected slow to be"),
    "a slow stranger": (event('client = "X"\nslow = 1'), 'expected client to be one of C, got "X"'),
    "a certain loss": (
        BASE + "[simulator]\ndrop = 1",
        "expected drop to be a probability of at least 0 and below 1, got 1",
    ),
    "a negative probability": (BASE + "[simulator]\nreorder = -0.1", "expected reorder to be"),
    "a negative capacity": (BASE + "[simulator]\nqueue_capacity = -1", "expected queue_capacity to be"),
    "a window of nothing": (BASE + "[simulator]\nwindow_bytes = 0", "expected window_bytes to be"),
    "a strange link model": (BASE + '[simulator]\nlinks = "sesion"', '(did you mean "session"?)'),
    "a cyclic tree": ('[overlay]\ntree = "a-b, b-c, c-a"\nclusters = 2', "[overlay]: "),
    "a tree without clusters": ('[overlay]\ntree = "a-b"', "[overlay]: expected a number of clusters"),
}


@pytest.mark.parametrize(("text", "says"), ERRORS.values(), ids=ERRORS.keys())
def test_an_error_says_what_and_where(text: str, says: str):
    with pytest.raises(UsageError) as caught:
        scenario_from(text)
    assert says in str(caught.value)
    assert str(caught.value).startswith("scenario.toml")


def test_a_bad_filter_shows_a_caret_below_the_place():
    with pytest.raises(InvalidFile) as caught:
        scenario_from(BASE + 'subscribe = ["x > 0 AND"]')
    _, shown, caret = str(caught.value).splitlines()
    assert shown.strip() == "x > 0 AND"
    assert caret.strip() == "^"
    assert shown[: caret.index("^")].strip() == "x > 0 AND"
