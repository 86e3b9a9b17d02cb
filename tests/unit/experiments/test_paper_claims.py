"""Claims on tables made by hand, whose answers are known."""

import dataclasses
import math

import paper_rows as make
import pytest
from paper_rows import DYNAMIC, OCTOPIA, STATIC, TID, TID_DYNAMIC, TID_DYNAMIC_PER_HOP, TID_STATIC, burst

from octopia.experiments.paper.claims import CLAIMS
from octopia.experiments.paper.comparisons import Comparison, Ours, percent
from octopia.experiments.paper.matrix import Setting, burst_matrix, clock_matrix, holds_from, quiet_matrix
from octopia.experiments.paper.names import Model
from octopia.experiments.paper.rows import BurstRow, CostRow, DeliveryRow, PublisherRow, SequenceRow, Tables
from octopia.experiments.paper.sizes import sizes_of
from octopia.experiments.paper.verdicts import Claim, Judged, Measure, Verdict, judge, verdict_of
from octopia.pipeline.spec import HostKind

PUBLISHERS = (
    make.publishers(100, OCTOPIA, table_size_mean=100 / 14, advertisement_messages=300),
    make.publishers(
        100,
        TID,
        advertisement_delay_ms=3.66,
        table_size_mean=100.0,
        advertisement_messages=21_700,
        duplicate_share=162 / 217,
    ),
)
SUBSCRIBERS = (
    make.subscribers(
        1_000,
        OCTOPIA,
        subscription_delay_ms=6.6,
        prt_size_mean=100.0,
        prt_subscriptions_mean=100.0,
        subscription_messages=1_325,
    ),
    make.subscribers(
        1_000,
        TID,
        subscription_delay_ms=10.0,
        prt_size_mean=67.0,
        prt_subscriptions_mean=50.0,
        subscription_messages=1_000,
    ),
)
DELIVERY = tuple(
    make.delivery(count, algorithm, publication_delay_ms=delay_ms, publication_messages=messages)
    for count, ours in ((1_000, 90), (10_000, 99))
    for algorithm, delay_ms, messages in (
        (STATIC, 0.992, ours),
        (DYNAMIC, 1.0, ours),
        (TID_STATIC, 2.0, 100),
        (TID_DYNAMIC, 2.0, 100),
    )
)
COSTS = (
    CostRow(1_000, STATIC, 10, 12.0, 1.0, 1.0, 20.0),
    CostRow(1_000, DYNAMIC, 10, 12.0, 1.0, 1.07, 20.0),
    CostRow(1_000, TID_STATIC, 10, 10.0, 2.0, 2.0, 20.0),
    CostRow(1_000, TID_DYNAMIC, 10, 10.0, 2.0, 14.0, 20.0),
    CostRow(2_000, STATIC, 10, 21.0, 1.0, 1.0, 20.0),
    CostRow(2_000, DYNAMIC, 10, 21.0, 1.0, 1.07, 20.0),
    CostRow(2_000, TID_STATIC, 10, 20.0, 2.0, 2.0, 20.0),
    CostRow(2_000, TID_DYNAMIC, 10, 20.0, 2.0, 14.0, 20.0),
)


BURSTS = (
    burst(STATIC, 500.0, 200_000.0),
    burst(
        DYNAMIC,
        420.0,
        165_000.0,
        publication_messages=10_004,
        publications_below_1s=0.51,
        target_queue_length_mean=6.8,
        burst_late_ms=190_000.0,
    ),
    burst(TID_STATIC, 917.0, 390_000.0),
    burst(TID_DYNAMIC, 1_082.0, 405_000.0),
    burst(TID_DYNAMIC_PER_HOP, 1_000.0, 400_000.0),
)
SEQUENCES = tuple(
    make.sequence(algorithm, number, delay_ms, 50_000.0 * (number + 1))
    for algorithm, delays_ms in {
        STATIC: (1100.0, 2000.0, 3000.0, 4000.0),
        DYNAMIC: (1150.0, 2000.0, 2900.0, 2000.0),
    }.items()
    for number, delay_ms in enumerate(delays_ms)
)
ALL = Tables(PUBLISHERS, SUBSCRIBERS, DELIVERY, COSTS, BURSTS, SEQUENCES)


def found(paper: str, tables: Tables = ALL, sentence: str = "", reading: str | None = None) -> Judged:
    [one] = [
        each
        for each in judge(CLAIMS, tables)
        if each.claim.paper == paper
        and sentence in each.claim.sentence
        and (not each.claim.is_other_reading if reading is None else each.claim.reading == reading)
    ]
    return one


@pytest.mark.parametrize(
    ("paper", "ours", "verdict"),
    [
        ("3 against 217", "3 against 217", Verdict.AGREES),
        ("4 against 56: -92.9%", "4 against 56: -92.9%", Verdict.AGREES),
        ("266% higher", "266% higher", Verdict.AGREES),
        ("93% smaller", "92.9% smaller", Verdict.AGREES),
        ("88.5 times", "72.3 times", Verdict.AGREES),
        ("up to 80% of messages", "74.7% of messages", Verdict.AGREES),
        ("33% smaller", "33.0% smaller", Verdict.AGREES),
        ("32.5% more", "32.5% more", Verdict.AGREES),
        ("34% less", "34.0% less", Verdict.AGREES),
        ("25% less", "50.4% less", Verdict.SAME_DIRECTION),
        ("0.8% less", "0.80% less", Verdict.AGREES),
        ("0.6% less", "no difference", Verdict.DIFFERS),
        ("11% higher", "10.0% higher", Verdict.AGREES),
        ("4.5% fewer", "5.5% fewer", Verdict.AGREES),
        ("1230% higher", "1208% higher", Verdict.AGREES),
        ("600% higher", "600% higher", Verdict.AGREES),
        ("7% higher", "7.0% higher", Verdict.AGREES),
        ("35 s before", "35.0 s before", Verdict.AGREES),
        ("157 s", "150.0 s", Verdict.ASSUMED),
        ("60 s", "65.0 s", Verdict.AGREES),
        ("0.04% more", "0.040% more", Verdict.AGREES),
        ("32% less", "32.0% less", Verdict.AGREES),
        ("51% against 48%", "51.0% against 48.0%", Verdict.AGREES),
        ("65% of runs", "100% of runs", Verdict.SAME_DIRECTION),
        ("25% of runs", "0% of runs", Verdict.DIFFERS),
        ("10% of runs", "0% of runs", Verdict.DIFFERS),
        ("18% higher", "18.0% higher", Verdict.AGREES),
        ("54% less", "54.0% less", Verdict.AGREES),
        ("15 s before", "15.0 s before", Verdict.AGREES),
        ("200 s before", "215.0 s before", Verdict.AGREES),
    ],
)
def test_a_claim_on_known_tables(paper: str, ours: str, verdict: Verdict):
    one = found(paper)
    assert one.ours is not None
    assert (one.ours.text, one.verdict) == (ours, verdict)


@pytest.mark.parametrize(
    ("paper", "reading", "ours"),
    [
        ("33% smaller", "distinct subscriptions", "50.0% smaller"),
        ("35 s before", "deliveries of the burst", "10.0 s before"),
        ("32% less", "all links", "no difference"),
        ("51% against 48%", "deliveries", "80.0% against 80.0%"),
        ("51% against 48%", "publications of the burst", "5.0% against 5.0%"),
        ("18% higher", "all deliveries, TID-D with one copy per hop", "9.1% higher"),
        ("15 s before", "all deliveries, in groups, TID-D with one copy per hop", "10.0 s before"),
    ],
)
def test_other_readings_of_a_claim_compare_other_numbers(paper: str, reading: str, ours: str):
    one = found(paper, reading=reading)
    assert (one.claim.is_other_reading, one.ours.text) == (True, ours)


def test_every_claim_says_what_decides_it():
    assert all(each.decided_by.endswith(".") for each in CLAIMS)
    assert sum(each.is_other_reading for each in CLAIMS) == 12


def under(model: Model, host: HostKind, *rows: BurstRow) -> tuple[BurstRow, ...]:
    return tuple(dataclasses.replace(row, model=model, host=host) for row in rows)


def test_the_matrix_has_a_column_per_model_and_in_bursts_per_host():
    shared = under(Model.BROKER_SENDER, HostKind.INNER, burst(STATIC, 9.0, 90_000.0), burst(DYNAMIC, 1.0, 56_000.0))
    matrix = burst_matrix(CLAIMS, Tables(bursts=(*BURSTS, *shared)))
    lead = next(claim for claim in matrix.claims if claim.paper == "35 s before")
    assert [each.text for each in matrix.columns] == [
        "links, inner host", "links, edge host", "broker-sender, inner host", "broker-sender, edge host",
    ]  # fmt: skip
    assert [each.ours and each.ours.text for each in matrix.row(lead)] == [None, "35.0 s before", "34.0 s before", None]
    assert matrix.best(lead) is Verdict.AGREES


def test_what_cannot_differ_under_a_model_is_taken_from_the_other():
    races = tuple(dataclasses.replace(row, model=Model.RACE_TREES, stable_ms=1.0) for row in BURSTS[2:])
    tables = Tables(PUBLISHERS, bursts=(*BURSTS, *races))
    assert [row.model for row in tables.under(Model.RACE_TREES).bursts] == ["links"] * 2 + ["race-trees"] * 3
    assert tables.under(Model.BROKER_SENDER).publishers == PUBLISHERS
    assert tables.under(Model.RACE_TREES).publishers == ()
    quiet = quiet_matrix(CLAIMS, tables)
    [claim, *_] = [each for each in quiet.claims if each.paper == "266% higher"]
    assert holds_from(claim, Setting(Model.BROKER_SENDER)) is Model.LINKS
    assert holds_from(claim, Setting(Model.RACE_TREES)) is None


def test_times_by_the_clock_are_judged_once():
    assert {each.claim.comparison.row_type for each in clock_matrix(CLAIMS, ALL)} == {CostRow}
    assert not any(each.by_clock for each in quiet_matrix(CLAIMS, ALL).claims)


def test_differences_that_shrink():
    matching, messages = found("shrinks", sentence="matching"), found("shrinks", sentence="messages")
    assert (matching.ours.text, matching.verdict) == ("20.0% at 1,000, 5.0% at 2,000", Verdict.AGREES)
    assert (messages.ours.text, messages.verdict) == ("11.1% at 1,000, 1.0% at 10,000", Verdict.AGREES)
    reversed_sizes = tuple(dataclasses.replace(row, subscribers=3_000 - row.subscribers) for row in COSTS)
    assert found("shrinks", Tables(costs=reversed_sizes), "matching").verdict is Verdict.DIFFERS


def test_a_difference_that_is_the_other_way_round_does_not_shrink():
    names = {STATIC: TID_STATIC, DYNAMIC: TID_DYNAMIC, TID_STATIC: STATIC, TID_DYNAMIC: DYNAMIC}
    swapped = tuple(dataclasses.replace(row, algorithm=names[row.algorithm]) for row in COSTS)
    assert found("shrinks", Tables(costs=swapped), "matching").verdict is Verdict.DIFFERS


def test_a_difference_that_hardly_shrinks_does_not_count():
    nearly = tuple(dataclasses.replace(row, match_us=11.95) if row.match_us == 12.0 else row for row in COSTS[:4])
    later = tuple(dataclasses.replace(row, subscribers=2_000) for row in nearly)
    assert found("shrinks", Tables(costs=(*COSTS[:4], *later)), "matching").verdict is Verdict.DIFFERS


def test_one_size_shows_no_trend():
    assert found("shrinks", Tables(costs=COSTS[:4]), "matching").verdict is Verdict.NOT_RUN


def test_what_was_not_run_is_said_for_every_claim():
    assert {each.verdict for each in judge(CLAIMS, Tables())} == {Verdict.NOT_RUN}
    assert all(each.ours is None for each in judge(CLAIMS, Tables()))


def test_one_system_alone_proves_nothing():
    tables = Tables(PUBLISHERS[:1], SUBSCRIBERS[:1], DELIVERY[:1], COSTS[:1], BURSTS[:1], SEQUENCES[:1])
    assert {each.verdict for each in judge(CLAIMS, tables)} == {Verdict.NOT_RUN}


def test_a_study_that_was_run_leaves_the_others_not_run():
    judged = judge(CLAIMS, Tables(publishers=PUBLISHERS))
    assert {each.claim.comparison.row_type for each in judged if each.verdict is not Verdict.NOT_RUN} == {PublisherRow}
    assert sum(each.verdict is not Verdict.NOT_RUN for each in judged) == 6


def test_runs_are_paired_by_size_and_seed_then_averaged():
    more = (
        make.publishers(200, OCTOPIA),
        make.publishers(200, TID, advertisement_delay_ms=5.0),
        make.publishers(300, TID, advertisement_delay_ms=99.0),
    )
    one = found("266% higher", Tables(publishers=(*PUBLISHERS, *more)))
    assert one.ours.value == pytest.approx((3.66 + 5.0) / 2)
    assert one.ours.comment == "2 pairs of runs, from 266% higher to 400% higher"
    assert one.ours.caveat == "1 without a counterpart left out"


@pytest.mark.parametrize(
    ("static_ms", "dynamic_ms", "text", "verdict"),
    [
        (None, 100_000.0, "only the first became stable", Verdict.SAME_DIRECTION),
        (100_000.0, None, "only the second became stable", Verdict.DIFFERS),
        (None, None, "neither became stable first", Verdict.DIFFERS),
        (100_000.0, 140_000.0, "40.0 s after", Verdict.DIFFERS),
        (100_000.0, 99_000.0, "1.0 s before", Verdict.SAME_DIRECTION),
        (100_000.0, 99_990.0, "at the same time", Verdict.DIFFERS),
    ],
)
def test_which_is_stable_first(static_ms: float | None, dynamic_ms: float | None, text: str, verdict: Verdict):
    one = found("35 s before", Tables(bursts=(burst(STATIC, 1.0, static_ms), burst(DYNAMIC, 1.0, dynamic_ms))))
    assert (one.ours.text, one.verdict) == (text, verdict)


def test_pairs_in_which_one_is_never_stable_are_counted():
    second = (burst(STATIC, 1.0, None, seed=2), burst(DYNAMIC, 1.0, 1.0, seed=2))
    one = found("35 s before", Tables(bursts=(*BURSTS, *second)))
    assert one.ours.value == 35.0
    assert one.ours.caveat == "of 2 pairs both were stable in 1, only the first in 1, only the second in 0"


def test_runs_that_are_never_stable_keep_nothing():
    one = found("60 s", Tables(bursts=(burst(DYNAMIC, 1.0, None, shrinking_ms=None),)))
    assert (one.ours.text, one.verdict) == ("never stable", Verdict.DIFFERS)


def test_delays_within_one_percent_are_the_same():
    rows = [(100.0, 100.9), (100.0, 102.0), (102.0, 100.0), (100.0, 110.0)]
    runs = [
        burst(algorithm, delay_ms, 1.0, seed=seed)
        for seed, delays in enumerate(rows)
        for algorithm, delay_ms in zip((TID_STATIC, TID_DYNAMIC), delays, strict=True)
    ]
    tables = Tables(bursts=tuple(runs))
    assert [found(f"{share}% of runs", tables).ours.value for share in (65, 25, 10)] == [0.5, 0.25, 0.25]


def curves(static_ms: list[float], dynamic_ms: list[float], start_ms: float = 0.0) -> Tables:
    return Tables(
        sequences=tuple(
            make.sequence(algorithm, number, delay_ms, start_ms + 1_000.0 * number)
            for algorithm, delays_ms in {STATIC: static_ms, DYNAMIC: dynamic_ms}.items()
            for number, delay_ms in enumerate(delays_ms)
        )
    )


@pytest.mark.parametrize(
    ("static_ms", "dynamic_ms", "start_ms", "same_s"),
    [
        ([9000.0, 9000.0, 9000.0], [5000.0, 5000.0, 5000.0], 0.0, 0.0),
        ([9000.0, 9000.0, 9000.0], [9000.0, 5000.0, 5000.0], 5_000.0, 5.0),
        # One point apart is no parting, unless nothing follows.
        ([9000.0, 9000.0, 9000.0], [9000.0, 5000.0, 9000.0], 0.0, 2.0),
        ([9000.0, 9000.0, 9000.0], [9000.0, 9000.0, 5000.0], 0.0, 1.0),
        # Nor are delays that are normal, or what was before the burst.
        ([900.0, 9000.0, 9000.0], [100.0, 9000.0, 9000.0], 0.0, 2.0),
        ([9000.0, 9000.0, 9000.0], [2000.0, 2000.0, 9000.0], -2_000.0, 0.0),
    ],
)
def test_how_long_curves_are_the_same(static_ms: list[float], dynamic_ms: list[float], start_ms: float, same_s: float):
    assert found("157 s", curves(static_ms, dynamic_ms, start_ms)).ours.value == same_s


def claim(value: float, measure: Measure, **more) -> Claim:
    return Claim("Fig. 1", "It is so.", "text", value, measure, Comparison(PublisherRow, lambda _: None, ()), **more)


@pytest.mark.parametrize(
    ("paper", "ours", "verdict"),
    [
        (3.66, 2.78, Verdict.AGREES),
        (3.66, 2.7, Verdict.SAME_DIRECTION),
        (3.66, 1.0, Verdict.DIFFERS),
        (3.66, 0.5, Verdict.DIFFERS),
        (0.07, 0.1, Verdict.AGREES),
        (0.07, 0.38, Verdict.SAME_DIRECTION),
        (0.07, 0.0, Verdict.SAME_DIRECTION),
        (0.07, 1.2, Verdict.DIFFERS),
        (1.0004, 1.0007, Verdict.SAME_DIRECTION),
        (1.0004, math.inf, Verdict.SAME_DIRECTION),
    ],
)
def test_ratios_are_judged_by_how_much_more(paper: float, ours: float, verdict: Verdict):
    assert verdict_of(claim(paper, Measure.RATIO), Ours("", ours), full_runs=False) is verdict


@pytest.mark.parametrize(
    ("paper", "ours", "verdict"),
    [
        (0.65, 0.56, Verdict.AGREES),
        (0.65, 0.9, Verdict.SAME_DIRECTION),
        (0.65, 0.4, Verdict.DIFFERS),
        (0.05, 0.0, Verdict.DIFFERS),
    ],
)
def test_shares_are_judged_by_points(paper: float, ours: float, verdict: Verdict):
    assert verdict_of(claim(paper, Measure.SHARE), Ours("", ours), full_runs=False) is verdict


def test_shares_of_few_runs_cannot_agree():
    of_runs = claim(0.65, Measure.SHARE)
    verdicts = [verdict_of(of_runs, Ours("", 0.66, runs=runs), full_runs=True) for runs in (3, 9, 10)]
    assert verdicts == [Verdict.SAME_DIRECTION, Verdict.SAME_DIRECTION, Verdict.AGREES]


@pytest.mark.parametrize(
    ("dynamic", "static", "verdict"),
    [
        (0.51, 0.48, Verdict.AGREES),
        (0.60, 0.39, Verdict.AGREES),
        # The ratio is the paper's, but nearly everything is late.
        (0.0051, 0.0048, Verdict.SAME_DIRECTION),
        (0.62, 0.48, Verdict.SAME_DIRECTION),
        (0.48, 0.51, Verdict.DIFFERS),
        (0.5, 0.5, Verdict.DIFFERS),
        # Both are shown as 27.6%.
        (0.27634, 0.27623, Verdict.DIFFERS),
    ],
)
def test_two_shares_are_judged_by_their_size_and_order(dynamic: float, static: float, verdict: Verdict):
    both = claim(0.51 / 0.48, Measure.SHARES, shares=(0.51, 0.48))
    assert verdict_of(both, Ours("", dynamic / static, sides=(dynamic, static)), full_runs=False) is verdict


@pytest.mark.parametrize(
    ("measure", "ours", "in_small_runs", "at_full_size"),
    [
        (Measure.LEAD, 30.0, Verdict.SAME_DIRECTION, Verdict.AGREES),
        (Measure.LEAD, -1.0, Verdict.DIFFERS, Verdict.DIFFERS),
        (Measure.DURATION, 30.0, Verdict.NOT_COMPARABLE, Verdict.AGREES),
        (Measure.DURATION, 3.0, Verdict.NOT_COMPARABLE, Verdict.SAME_DIRECTION),
    ],
)
def test_seconds_are_compared_at_full_size(
    measure: Measure, ours: float, in_small_runs: Verdict, at_full_size: Verdict
):
    verdicts = [verdict_of(claim(35.0, measure), Ours("", ours), full_runs=full) for full in (False, True)]
    assert verdicts == [in_small_runs, at_full_size]


def test_what_is_said_to_be_small_must_be():
    small = claim(1.0004, Measure.RATIO, at_most=0.02)
    assert verdict_of(small, Ours("", 1.01), full_runs=True) is Verdict.SAME_DIRECTION
    assert verdict_of(small, Ours("", 1.03), full_runs=True) is Verdict.DIFFERS


def test_what_the_cost_model_was_inferred_from_is_no_result():
    assert (
        verdict_of(claim(157.0, Measure.DURATION, is_assumed=True), Ours("", 157.0), full_runs=True) is Verdict.ASSUMED
    )


def test_a_difference_that_is_not_told_does_not_count():
    more = dataclasses.replace(BURSTS[1], publication_messages=10_000_020)
    same = dataclasses.replace(BURSTS[0], publication_messages=10_000_000)
    one = found("0.04% more", Tables(bursts=(more, same)))
    assert (one.ours.text, one.verdict) == ("no difference", Verdict.DIFFERS)


def test_what_must_be_exact_must_be_so_in_every_run():
    other = dataclasses.replace(PUBLISHERS[1], seed=2, advertisement_messages=21_701)
    one = found("3 against 217", Tables(publishers=(*PUBLISHERS, other)))
    assert (one.ours.text, one.verdict) == ("3 against 217 to 217.01", Verdict.DIFFERS)
    stored = dataclasses.replace(PUBLISHERS[0], seed=2, table_size_mean=100 / 14 + 1)
    one = found("4 against 56: -92.9%", Tables(publishers=(*PUBLISHERS, stored)))
    assert one.verdict is Verdict.DIFFERS


def test_only_costs_are_measured_by_the_clock():
    assert {each.comparison.row_type for each in CLAIMS if each.by_clock} == {CostRow}
    assert sum(each.by_clock for each in CLAIMS) == 5


def test_percentages_have_about_three_digits():
    assert [percent(share) for share in (12.3, 0.925, 0.0123, 0.0012, 0.00004, 0.0)] == [
        "1230%", "92.5%", "1.2%", "0.12%", "0.004%", "0%",
    ]  # fmt: skip


def test_a_study_says_whether_it_was_run_at_full_size():
    sizes = sizes_of(ALL)
    assert (sizes[PublisherRow].ran, sizes[PublisherRow].full) == ("100 publishers, 1 seed", False)
    delivery = sizes[DeliveryRow]
    assert (delivery.ran, delivery.full) == ("1,000 to 10,000 subscribers, 1 seed, 10,000 publications", True)
    fewer = tuple(dataclasses.replace(row, publications=500) for row in DELIVERY)
    assert sizes_of(Tables(delivery=fewer))[DeliveryRow].note == "not at full size"
    assert sizes[BurstRow].ran == "100K per minute, 150,000 publications, 1 seed"
    assert sizes[BurstRow].note == "at full size, but not all were run"
    assert not sizes[SequenceRow].full
    assert sizes_of(Tables())[CostRow].ran == "not run"
    rates = (40_000, 60_000, 80_000, 100_000)
    every = tuple(burst(STATIC, 1.0, 1.0, seed=seed, rate_per_minute=rate) for rate in rates for seed in range(20))
    assert sizes_of(Tables(bursts=every))[BurstRow].full


def test_a_result_has_its_spread_over_seeds():
    later = [burst(STATIC, 1.0, 60_000.0, seed=seed) for seed in (1, 2)]
    earlier = [burst(DYNAMIC, 1.0, stable_ms, seed=seed) for seed, stable_ms in ((1, 20_000.0), (2, 30_000.0))]
    (judged, *_) = judge(
        [each for each in CLAIMS if "IDR is stable" in each.sentence], Tables(bursts=(*later, *earlier))
    )
    assert judged.ours is not None
    assert (judged.ours.text, judged.spread) == ("35.0 s before", "30.0 s before to 40.0 s before")
    (alone, *_) = judge([judged.claim], Tables(bursts=(later[0], earlier[0])))
    assert alone.spread == ""


def test_models_are_those_of_runs_and_not_of_bounds():
    tables = Tables(bursts=(burst(STATIC),), bounds=tuple(make.bound(2.0, 1.0, model=model) for model in Model))
    assert tables.models == (Model.LINKS,)
