"""The studies of the paper, as their files say."""

import pytest

from octopia.errors import InvalidFile, UsageError
from octopia.experiments.paper.names import Contender, Model, Scale, StudyName
from octopia.experiments.paper.studies import Extent, load_study, read_study
from octopia.pipeline.spec import HostKind, Meaning


@pytest.mark.parametrize("scale", Scale)
@pytest.mark.parametrize("name", StudyName)
def test_every_study_can_be_read_at_every_scale(name, scale):
    study = load_study(name, Extent(scale))
    assert study.points
    assert {point.seed for point in study.points} == set(range(20 if scale is Scale.PAPER else 1))
    assert len({point.folder for point in study.points}) == len(study.points)


def test_one_value_may_be_asked_for():
    study = load_study(StudyName.BURST, Extent(Scale.PAPER, seeds=2, values=(100e3,)))
    assert [(point.value, point.seed, point.host) for point in study.points] == [
        (100e3, 0, "inner"), (100e3, 0, "edge"), (100e3, 1, "inner"), (100e3, 1, "edge"),
    ]  # fmt: skip


def test_seeds_may_be_asked_for_one_by_one():
    some = load_study(StudyName.DELIVERY, Extent(Scale.PAPER, values=(1000.0,), only_seeds=(4, 1)))
    every = load_study(StudyName.DELIVERY, Extent(Scale.PAPER, values=(1000.0,)))
    assert some.points == (every.points[4], every.points[1])


def test_a_model_and_a_host_may_be_asked_for():
    extent = Extent(Scale.PAPER, seeds=1, values=(100e3,), models=(Model.BROKER_SENDER,), hosts=(HostKind.INNER,))
    [point] = load_study(StudyName.BURST, extent).points
    assert point.folder == "workload-100000-0-inner"
    assert {run.profile for run in point.runs} == {"paper-broker-sender"}
    with pytest.raises(UsageError, match="expected --host for a study with a burst, got delivery"):
        load_study(StudyName.DELIVERY, Extent(Scale.TINY, hosts=(HostKind.INNER,)))


def test_algorithms_may_be_asked_for():
    wanted = (Contender.ADAPTIVE, Contender.TID_STATIC)
    extent = Extent(Scale.TINY, models=(Model.BROKER_SENDER,), hosts=(HostKind.EDGE,), algorithms=wanted)
    [point] = load_study(StudyName.BURST, extent).points
    assert [run.algorithm for run in point.runs] == list(wanted)
    nothing = Extent(Scale.TINY, models=(Model.RACE_TREES,), algorithms=(Contender.TID_DYNAMIC,))
    with pytest.raises(UsageError, match=r"expected one that burst\.toml runs under this model, got tid-dynamic"):
        load_study(StudyName.BURST, nothing)


def test_what_cannot_differ_is_not_played_twice():
    def played(name: StudyName, models: tuple[Model, ...] = ()) -> list[tuple[str, str]]:
        point = load_study(name, Extent(Scale.TINY, models=models)).points[0]
        return [(run.profile, Contender.of(run.algorithm, run.tid_copies)) for run in point.runs]

    systems = ["dynamic", "adaptive", "tid-static"]
    assert played(StudyName.PUBLISHERS) == [(each, one) for each in ("paper", "paper-race-trees") for one in systems]
    assert played(StudyName.SUBSCRIBERS, (Model.BROKER_SENDER,)) == [("paper", each) for each in systems]
    assert played(StudyName.SUBSCRIBERS) == [*(("paper", each) for each in systems), ("paper-race-trees", "tid-static")]
    assert len(played(StudyName.BURST)) == 6 + 6 + 1
    assert len(played(StudyName.DELIVERY)) == 5 + 5 + 2
    # Asked for alone, a model brings the runs that hold for it.
    races = played(StudyName.BURST, (Model.RACE_TREES,))
    assert [profile for profile, _ in races] == ["paper"] * 3 + ["paper-race-trees"]


@pytest.mark.parametrize("scale", [Scale.TINY, Scale.LAPTOP])
def test_smaller_bursts_keep_the_load_of_links_to_edge_brokers(scale):
    [small], [full] = (
        {load_of(point.workload) for point in load_study(StudyName.BURST, Extent(each, seeds=1)).points}
        for each in (scale, Scale.PAPER)
    )
    assert 0.93 * full <= small <= full
    assert {point.workload.burst_subscribers for point in load_study(StudyName.BURST, Extent(scale)).points} == {10}


def load_of(workload) -> float:
    """Return the share of publications that some subscriber of a broker wants, if all brokers have as many."""
    each = workload.subscribers / len(workload.scot().brokers)
    return 1 - (1 - workload.publishers_each / workload.publishers) ** each


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        (StudyName.BURST, -5.0, "--value of burst_per_minute: expected numbers above 0, got -5"),
        (StudyName.SUBSCRIBERS, 0.0, "--value of subscribers: expected numbers above 0, got 0"),
        (StudyName.PUBLISHERS, 2.5, "--value of publishers: expected whole numbers, got 100.0, 2.5"),
    ],
)
def test_a_value_that_no_workload_can_have_is_blamed(name, value, problem):
    with pytest.raises(UsageError, match=problem):
        load_study(name, Extent(Scale.TINY, values=(100.0, value)))


def test_the_burst_study_is_the_papers():
    study = load_study(StudyName.BURST, Extent(Scale.PAPER, seeds=3))
    assert [point.value for point in study.points] == [rate for rate in (100e3, 80e3, 60e3, 40e3) for _ in range(6)]
    for point in study.points:
        workload, burst = point.workload, point.workload.burst
        assert (workload.publishers, workload.publications, workload.subscribers) == (100, 1000, 10_000)
        assert (workload.selectivity, workload.meaning) == (0.04, Meaning.PUBLISHERS)
        assert (workload.per_minute_min, workload.per_minute_max, workload.seed) == (100, 120, point.seed)
        assert burst is not None
        assert (burst.publications, burst.share, burst.per_minute) == (50_000, 0.001, point.value)
        assert [Contender.of(run.algorithm, run.tid_copies) for run in point.runs[:6]] == list(Contender)
        assert {(run.tau, run.window_ms) for run in point.runs} == {(10.0, 50.0)}


def test_the_scaling_studies_are_the_papers():
    publishers = load_study(StudyName.PUBLISHERS, Extent(Scale.PAPER, seeds=1))
    assert [point.workload.publishers for point in publishers.points] == [100, 200, 300, 400, 500]
    subscribers = load_study(StudyName.SUBSCRIBERS, Extent(Scale.PAPER, seeds=1))
    assert [point.workload.subscribers for point in subscribers.points][0::5] == [1000, 10_000]
    assert {point.workload.publishers for point in subscribers.points} == {100}
    delivery = load_study(StudyName.DELIVERY, Extent(Scale.PAPER, seeds=1))
    assert all(run.uncongested for point in delivery.points for run in point.runs)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "title"),
        (
            'title = "x"\n[workload]\npublishers = 3\n[run]\n[tiny]\n[laptop]\n[paper]\n',
            "one field .* with several values",
        ),
        (
            'title = "x"\n[workload]\npublishers = [0]\n[run]\n[tiny]\n[laptop]\n[paper]\n',
            "publishers: at least 1, got 0",
        ),
        ('title = "x"\n[workload]\npublishers = [3]\n[run]\nalgorithm = "fast"\n[tiny]\n[laptop]\n[paper]\n', "fast"),
        (
            'title = "x"\n[workload]\npublishers = [3]\n[run]\nmodel = ["links", "ether"]\n[tiny]\n[laptop]\n[paper]\n',
            "expected a model of links, broker-sender, race-trees, got ether",
        ),
        ('title = "x"\n[workload]\npublishers = [3]\n[run]\n[tiny]\n[paper]\n', "laptop"),
        ('title = "x"\nother = 1\n[workload]\npublishers = [3]\n[run]\n[tiny]\n[laptop]\n[paper]\n', "other"),
    ],
)
def test_a_study_that_cannot_be_run_says_why(tmp_path, text, problem):
    (tmp_path / "study.toml").write_text(text)
    with pytest.raises(InvalidFile, match=problem):
        read_study(tmp_path / "study.toml", StudyName.BURST, Extent(Scale.LAPTOP))
