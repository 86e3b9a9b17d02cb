import dataclasses
import re
from pathlib import Path

import pytest

from octopia.addresses import Address
from octopia.errors import InvalidFile, InvalidOverlay, UnknownBroker, UsageError
from octopia.ids import BrokerId
from octopia.overlay.files import (
    LinkShape,
    Overlay,
    load_overlay,
    overlay_from_text,
    read_broker,
    read_overlay,
    read_routing,
)
from octopia.settings import Algorithm, Limit, ResourceLimits, RoutingSettings
from octopia.tomlfile import Table, read_toml

DOCUMENT = Path(__file__).parents[3] / "docs" / "overlay-files.md"
BASE = 'tree = "a-b, b-c"\nclusters = 4\n'


def load(tmp_path: Path, text: str) -> Overlay:
    path = tmp_path / "overlay.toml"
    path.write_text(text)
    return load_overlay(path)


def broker(text: str) -> BrokerId:
    return BrokerId.parse(text)


def documented() -> list[str]:
    return re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)


def test_the_documented_file(tmp_path: Path):
    overlay = load(tmp_path, documented()[0])
    assert overlay.name == "twelve"
    assert len(overlay.scot.brokers) == 12
    assert overlay.addresses[broker("b.3")] == Address("10.0.0.4", 7400)
    both = LinkShape(rate=50.0, delay_ms=2.0)
    assert overlay.shapes == {
        (broker("b.3"), broker("b.0")): both,
        (broker("b.0"), broker("b.3")): both,
        (broker("a.1"), broker("b.1")): LinkShape(rate=None, delay_ms=20.0),
    }
    assert overlay.routing == RoutingSettings(Algorithm.DYNAMIC, 10.0, 50.0)


def test_limits_are_read_and_the_others_keep_their_defaults(tmp_path: Path):
    assert load(tmp_path, BASE).limits == ResourceLimits()
    limits = load(tmp_path, BASE + "[limits]\nclients = 5\nbytes_per_second_per_client = 1e6").limits
    assert limits == ResourceLimits(clients=5, bytes_per_second_per_client=1e6)
    assert [each.value for each in Limit] == [field.name for field in dataclasses.fields(ResourceLimits)]


def test_the_smallest_documented_file(tmp_path: Path):
    overlay = load(tmp_path, documented()[1])
    assert (overlay.name, len(overlay.scot.brokers)) == ("paper:se", 56)
    assert overlay.routing == RoutingSettings()


def test_the_default_of_a_network_is_adaptive_routing(tmp_path: Path):
    assert RoutingSettings().algorithm is Algorithm.ADAPTIVE
    assert overlay_from_text("path:3", 2).routing.algorithm is Algorithm.ADAPTIVE
    assert load(tmp_path, BASE).routing.algorithm is Algorithm.ADAPTIVE
    assert load(tmp_path, BASE + "[routing]\ntau = 5\n").routing == RoutingSettings(Algorithm.ADAPTIVE, 5.0)


def test_the_documented_reference_to_a_file(tmp_path: Path):
    load(tmp_path, BASE)
    (tmp_path / "scenario.toml").write_text(documented()[2])
    scenario = read_toml(tmp_path / "scenario.toml")
    overlay = read_overlay(scenario.table("overlay"), tmp_path, RoutingSettings())
    scenario.finish()
    assert len(overlay.scot.brokers) == 12


def test_every_example_of_the_document_is_tested():
    assert len(documented()) == 3


def test_a_scenario_may_hold_the_overlay_itself(tmp_path: Path):
    path = tmp_path / "scenario.toml"
    path.write_text(
        '[overlay]\ntree = "a-b"\nclusters = 2\n[overlay.brokers."a.1"]\nport = 9\n[overlay.routing]\ntau = 3\n'
    )
    scenario = read_toml(path)
    overlay = read_overlay(scenario.table("overlay"), tmp_path, RoutingSettings())
    scenario.finish()
    assert overlay.addresses[broker("a.1")] == Address("127.0.0.1", 9)
    assert overlay.routing == RoutingSettings(tau=3.0)


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("::1", "[::1]:7409"),
        ("0:0::1", "[::1]:7409"),
        ("2001:DB8::4", "[2001:db8::4]:7409"),
        ("fe80::1%eth0", "[fe80::1%eth0]:7409"),
        ("10.0.0.4", "10.0.0.4:7409"),
        ("broker-4.example.org", "broker-4.example.org:7409"),
    ],
)
def test_hosts_may_be_names_and_addresses_of_both_kinds(tmp_path: Path, host: str, shown: str):
    overlay = load(tmp_path, BASE + f'[brokers."b.3"]\nhost = "{host}"\nport = 7409\n')
    assert str(overlay.addresses[broker("b.3")]) == shown


def test_default_addresses_count_up_by_region_and_cluster(tmp_path: Path):
    addresses = load(tmp_path, BASE).addresses
    assert [str(addresses[broker(each)]) for each in ("a.0", "a.3", "b.0", "c.3")] == [
        "127.0.0.1:7400",
        "127.0.0.1:7403",
        "127.0.0.1:7404",
        "127.0.0.1:7411",
    ]


def test_clusters_given_with_a_tree_of_the_paper(tmp_path: Path):
    assert load(tmp_path, 'tree = "paper:se"\nclusters = 2\n').scot.clusters == 2


def test_an_overlay_of_a_text():
    assert len(overlay_from_text("path:3", 2).scot.brokers) == 6
    assert overlay_from_text("paper:fig3").scot.clusters == 3
    assert overlay_from_text("a", 1).addresses == {BrokerId("a", 0): Address("127.0.0.1", 7400)}
    with pytest.raises(InvalidOverlay, match='expected a number of clusters with the tree "path:3", got none'):
        overlay_from_text("path:3")


def test_routing_keeps_the_defaults_it_is_given():
    defaults = RoutingSettings(Algorithm.STATIC, 5.0, 20.0, True)
    assert read_routing(None, defaults) is defaults
    assert read_routing(Table({}, "x"), defaults) == defaults
    changed = read_routing(Table({"algorithm": "tid-dynamic", "confirmations": False}, "x"), defaults)
    assert changed == RoutingSettings(Algorithm.TID_DYNAMIC, 5.0, 20.0, False)


def test_read_broker_names_the_place():
    scot = overlay_from_text("a-b", 2).scot
    assert read_broker(Table({"broker": "b.1"}, "f"), "broker", scot) == broker("b.1")
    with pytest.raises(UnknownBroker, match=r"^f: expected a broker"):
        read_broker(Table({"broker": "b.7"}, "f"), "broker", scot)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("", InvalidFile, 'overlay.toml: expected the key "tree", got none'),
        ('tree = "a-b"', InvalidOverlay, "overlay.toml: expected a number of clusters"),
        ('tree = "a-b"\nclusters = 0', InvalidOverlay, "overlay.toml: expected from 1 to 64 clusters, got 0"),
        ('tree = "a-b"\nclusters = 65', InvalidOverlay, "got 65"),
        ('tree = "a-b"\nclusters = true', InvalidFile, "expected clusters to be an integer, got true"),
        ('tree = "a-b"\nclusters = 2.0', InvalidFile, "expected clusters to be an integer, got 2.0"),
        ('tree = "a-b, b-a"\nclusters = 2', InvalidOverlay, "overlay.toml: expected every edge once"),
        ('tree = ["a-b"]\nclusters = 2', InvalidFile, "expected tree to be a string, got a list"),
        (BASE + "cluster = 4", InvalidFile, 'got "cluster" (did you mean "clusters"?)'),
        (BASE + 'file = "other.toml"', InvalidFile, 'got "file"'),
        (BASE + "name = 3", InvalidFile, "expected name to be a string"),
        (BASE + '[brokers."b.9"]', UnknownBroker, "overlay.toml, [brokers]: expected a broker of region b"),
        (BASE + "[brokers.b]", UnknownBroker, "expected a broker as region.cluster"),
        (BASE + '[brokers]\n"b.3" = "10.0.0.1"', InvalidFile, "expected b.3 to be a table"),
        (BASE + '[brokers."b.3"]\nport = 0', InvalidFile, '[brokers."b.3"]: expected port to be an integer from 1'),
        (BASE + '[brokers."b.3"]\nport = 65536', InvalidFile, "from 1 to 65535, got 65536"),
        (BASE + '[brokers."b.3"]\nport = "7400"', InvalidFile, "expected port to be an integer"),
        (BASE + '[brokers."b.3"]\nhost = ""', InvalidFile, "expected host to be the name or address of a machine"),
        (BASE + '[brokers."b.3"]\nhost = "a b"', InvalidFile, "expected host to be"),
        (BASE + '[brokers."b.3"]\nhost = "a..b"', InvalidFile, "expected host to be the name or address of a machine"),
        (BASE + f'[brokers."b.3"]\nhost = "{"a" * 64}"', InvalidFile, "expected host to be the name or address"),
        (
            BASE + '[brokers."b.3"]\nhost = "[::1]"',
            InvalidFile,
            'without brackets or a port, got the string "[::1]"',
        ),
        (BASE + '[brokers."b.3"]\nhost = "10.0.0.4:7400"', InvalidFile, "without brackets or a port"),
        (
            BASE + '[brokers."b.2"]\nhost = "::1"\nport = 1\n[brokers."b.3"]\nhost = "0::1"\nport = 1',
            InvalidFile,
            "got b.2 and b.3 both at [::1]:1",
        ),
        (BASE + '[brokers."b.3"]\nhots = "x"', InvalidFile, '(did you mean "host"?)'),
        (BASE + '[brokers."b.3"]\nport = 7400', InvalidFile, "got a.0 and b.3 both at 127.0.0.1:7400"),
        (BASE + "[link]", InvalidFile, "expected link to be an array of tables, written [[link]]"),
        (BASE + "[[link]]\nrate = 1", InvalidFile, '[[link]] number 1: expected either "between" or "from" and "to"'),
        (BASE + '[[link]]\nbetween = ["a.0", "b.0"]\nto = "b.0"\nrate = 1', InvalidFile, "got both"),
        (BASE + '[[link]]\nfrom = "a.0"\nrate = 1', InvalidFile, 'expected the key "to", got none'),
        (BASE + '[[link]]\nto = "a.0"\nrate = 1', InvalidFile, 'expected the key "from", got none'),
        (BASE + '[[link]]\nbetween = ["a.0"]\nrate = 1', InvalidFile, "expected between to be a list of two strings"),
        (
            BASE + '[[link]]\nbetween = ["a.0", "c.0"]\nrate = 1',
            InvalidOverlay,
            "expected two neighbours, got a.0 and c",
        ),
        (BASE + '[[link]]\nbetween = ["a.0", "x.0"]\nrate = 1', UnknownBroker, "[[link]] number 1: expected a broker"),
        (BASE + '[[link]]\nbetween = ["a.0", "b.0"]', InvalidFile, "expected rate or delay_ms, got neither"),
        (
            BASE + '[[link]]\nbetween = ["a.0", "b.0"]\nrate = 0',
            InvalidFile,
            "expected rate to be a finite number above",
        ),
        (BASE + '[[link]]\nbetween = ["a.0", "b.0"]\nrate = nan', InvalidFile, "got nan"),
        (BASE + '[[link]]\nbetween = ["a.0", "b.0"]\ndelay_ms = -1', InvalidFile, "number of at least 0, got -1"),
        (BASE + '[[link]]\nbetween = ["a.0", "b.0"]\ndelay_ms = inf', InvalidFile, "got inf"),
        (BASE + '[[link]]\nbetween = ["a.0", "b.0"]\nrate = 1\ndelay = 1', InvalidFile, '(did you mean "delay_ms"?)'),
        (
            BASE + '[[link]]\nbetween = ["a.0", "b.0"]\nrate = 1\n[[link]]\nfrom = "b.0"\nto = "a.0"\nrate = 2',
            InvalidFile,
            "[[link]] number 2: expected each direction of a link once, got b.0 to a.0 twice",
        ),
        (BASE + '[routing]\nalgorithm = "dynamc"', InvalidFile, '(did you mean "dynamic"?)'),
        (BASE + "[routing]\ntau = 0", InvalidFile, "[routing]: expected tau to be a finite number above 0, got 0"),
        (BASE + "[routing]\nwindow_ms = -5", InvalidFile, "expected window_ms to be a finite number above 0"),
        (BASE + "[routing]\nwait_ms = 0", InvalidFile, "expected wait_ms to be a finite number above 0, got 0"),
        (BASE + "[routing]\nhold_ms = -1", InvalidFile, "expected hold_ms to be a finite number of at least 0, got -1"),
        (BASE + "[routing]\nprobe_ms = inf", InvalidFile, "expected probe_ms to be a finite number above 0, got inf"),
        (BASE + '[routing]\nconfirmations = "yes"', InvalidFile, "expected confirmations to be true or false"),
        (BASE + "[limits]\nclients = -1", InvalidFile, "expected clients to be an integer of at least 0, got -1"),
        (BASE + "[limits]\nclients = 1.5", InvalidFile, "expected clients to be an integer of at least 0"),
        (BASE + "[limits]\nclient = 1", InvalidFile, '(did you mean "clients"?)'),
        (BASE + "[routing]\nwindow = 5", InvalidFile, '(did you mean "window_ms"?)'),
    ],
)
def test_errors(tmp_path: Path, text: str, kind: type[UsageError], message: str):
    with pytest.raises(UsageError) as caught:
        load(tmp_path, text)
    assert type(caught.value) is kind
    assert message in str(caught.value)


def test_a_file_stands_alone(tmp_path: Path):
    with pytest.raises(InvalidFile, match='expected "file" to be the only key, got also "clusters"'):
        read_overlay(
            Table({"clusters": 3, "file": "overlay.toml"}, "scenario.toml, [overlay]"), tmp_path, RoutingSettings()
        )


def test_a_file_that_is_missing(tmp_path: Path):
    with pytest.raises(InvalidFile, match=r"expected a file at .*gone\.toml, got none"):
        read_overlay(Table({"file": "gone.toml"}, "scenario.toml, [overlay]"), tmp_path, RoutingSettings())
