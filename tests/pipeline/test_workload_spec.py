import pytest

from octopia.errors import OctopiaError, UsageError
from octopia.pipeline.placement import Placement
from octopia.pipeline.schedule import BURST, deal
from octopia.pipeline.selectivity import sampled
from octopia.pipeline.spec import Burst, HostKind, Meaning, WorkloadSpec

SYMBOLS = [f"S{number:03}" for number in range(505)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"publishers": 0},
        {"publications": -1},
        {"subscribers": -1},
        {"selectivity": 0.0},
        {"selectivity": 1.5},
        {"per_minute_min": 0.0},
        {"per_minute_min": 120.0, "per_minute_max": 100.0},
        {"burst": Burst(publications=0)},
        {"burst": Burst(per_minute=0)},
        {"burst": Burst(share=0)},
        {"burst": Burst(start_ms=-1)},
        {"burst": Burst(), "subscribers": 3},
        {"burst": Burst(), "tree": "a", "clusters": 1},
        {"burst": Burst(host=HostKind.INNER), "tree": "path:2", "clusters": 2},
        {"tree": "nonsense:3", "burst": Burst()},
    ],
)
def test_what_makes_no_workload_is_refused(wrong):
    with pytest.raises(UsageError, match="expected"):
        WorkloadSpec(**wrong)


def test_every_symbol_has_one_publisher_and_every_publisher_as_many_symbols():
    dealt = deal(SYMBOLS, WorkloadSpec(publishers=101))
    assert sorted(dealt) == SYMBOLS
    assert {list(dealt.values()).count(f"p{number}") for number in range(101)} == {5}


def test_a_burst_is_about_the_last_symbols():
    dealt = deal(SYMBOLS, WorkloadSpec(burst=Burst()))
    assert [symbol for symbol, publisher in sorted(dealt.items()) if publisher == BURST] == SYMBOLS[-5:]


def test_another_seed_deals_other_symbols():
    assert deal(SYMBOLS, WorkloadSpec(seed=1)) != deal(SYMBOLS, WorkloadSpec(seed=2))


def test_more_publishers_than_symbols_are_an_error():
    with pytest.raises(UsageError, match="at least one symbol for each of 100 publishers, got 50"):
        deal(SYMBOLS[:50], WorkloadSpec(publishers=100))
    with pytest.raises(UsageError, match="and the burst, got 50"):
        deal(SYMBOLS[:50], WorkloadSpec(publishers=50, burst=Burst()))


def test_a_share_of_publishers_is_at_least_one_of_them():
    shares = (0.02, 0.04, 0.001)
    assert [WorkloadSpec(publishers=100, selectivity=share).publishers_each for share in shares] == [2, 4, 1]
    assert [WorkloadSpec(publishers=1000, selectivity=share).publishers_each for share in shares] == [20, 40, 1]


def test_no_filter_names_too_many_symbols():
    spec = WorkloadSpec(publishers=100, selectivity=0.5, meaning=Meaning.PUBLISHERS)
    assert spec.publishers_each * spec.symbols_each(505) <= 60


def test_no_bars_are_an_error():
    with pytest.raises(OctopiaError, match="at least one symbol"):
        deal([], WorkloadSpec())


def test_subscribers_of_a_burst_are_in_every_cluster_and_never_at_its_host():
    for seed in range(20):
        spec = WorkloadSpec(subscribers=10_000, burst=Burst(), seed=seed)
        placement = Placement.of(spec)
        brokers = [placement.subscriber(number) for number in range(spec.burst_subscribers)]
        assert spec.burst_subscribers == 10
        assert {broker.split(".")[1] for broker in brokers} == {"0", "1", "2", "3"}
        assert placement.publisher(BURST) not in brokers


def test_clients_are_spread_over_all_brokers():
    placement = Placement.of(WorkloadSpec(subscribers=10_000))
    brokers = [placement.subscriber(number) for number in range(10_000)]
    counts = [brokers.count(broker) for broker in set(brokers)]
    assert len(counts) == 56
    assert 100 < min(counts) < max(counts) < 260


@pytest.mark.parametrize(("subscriptions", "measured"), [(0, 0), (1, 1), (400, 400), (401, 201), (10_000, 400)])
def test_at_most_four_hundred_subscriptions_are_measured(subscriptions: int, measured: int):
    assert len(sampled(subscriptions)) == measured


@pytest.mark.parametrize("kind", [HostKind.INNER, HostKind.EDGE])
def test_the_host_of_a_burst_is_of_the_kind_that_is_asked_for(kind):
    found = set()
    for seed in range(20):
        spec = WorkloadSpec(burst=Burst(host=kind), seed=seed)
        placement = Placement.of(spec)
        host = spec.scot().broker(placement.publisher(BURST))
        assert spec.scot().neighbourhood(host).is_edge == (kind is HostKind.EDGE)
        assert all(placement.subscriber(number) != str(host) for number in range(spec.burst_subscribers))
        found.add(host)
    assert len(found) > 5


def test_the_kind_of_host_changes_no_other_publisher():
    specs = [WorkloadSpec(burst=Burst(host=kind), seed=3) for kind in HostKind]
    assert len({tuple(Placement.of(spec).publisher(f"p{number}") for number in range(100)) for spec in specs}) == 1
    assert len(WorkloadSpec(burst=Burst(host=HostKind.INNER)).burst_hosts) == 16
