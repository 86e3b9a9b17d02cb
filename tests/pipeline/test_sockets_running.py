"""The comparison over sockets on twelve brokers: predicted, played, audited, and resumed."""

import dataclasses

import pytest

from octopia.errors import UsageError
from octopia.experiments.audits import AuditRow
from octopia.experiments.missing import Missing
from octopia.experiments.slow_links import overlay_text
from octopia.experiments.sockets import runs
from octopia.experiments.sockets.cases import CASES, CaseName, tiny_study
from octopia.experiments.sockets.runs import compare_over_sockets, judged_audit
from octopia.pipeline.jobs import Market
from octopia.settings import Algorithm

STATIC, ADAPTIVE, TID = Algorithm.STATIC, Algorithm.ADAPTIVE, Algorithm.TID_STATIC
WANTED = (CaseName.SLOW_ALINKS, CaseName.DEAD_BROKER)
TINY = dataclasses.replace(
    tiny_study(),
    cases=tuple(case for case in CASES if case.name in WANTED),
    algorithms=(STATIC, ADAPTIVE, TID),
    predictions=1,
)
SMALL = Market(symbols=60, days=20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("sockets")


@pytest.fixture(scope="module")
def compared(workspace, folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "is_short", lambda _: False)  # The machine may be busy with other tests.
        return list(compare_over_sockets(workspace, TINY, folder, SMALL))


@pytest.fixture(scope="module")
def rows(compared):
    (setup,) = compared
    return {(row.case, row.algorithm): row for row in setup.rows}


@pytest.mark.soak
def test_every_run_is_audited_and_clean(compared, rows):
    (setup,) = compared
    assert set(rows) == {(case, algorithm) for case in WANTED for algorithm in TINY.algorithms}
    assert len(setup.audits) == 2 * len(rows)
    assert all(audit.is_clean and audit.deliveries > 0 for audit in setup.audits)


@pytest.mark.soak
def test_static_routing_waits_for_slow_alinks_in_both_worlds_and_adaptive_does_not(rows):
    static, adaptive = rows[CaseName.SLOW_ALINKS, STATIC], rows[CaseName.SLOW_ALINKS, ADAPTIVE]
    assert static.slow_links == adaptive.slow_links > 0
    assert static.delay_ms_p99 > 300
    assert static.predicted_delay_ms_p99 > 300
    assert adaptive.predicted_delay_ms_mean < static.predicted_delay_ms_mean / 3
    assert adaptive.delay_ms_mean < static.delay_ms_mean
    assert static.publication_messages == static.predicted_publication_messages
    assert all(row.share == row.predicted_share == 1.0 for row in (static, adaptive))


@pytest.mark.soak
def test_around_a_dead_broker_only_adaptive_routing_delivers_everything(rows):
    static, adaptive = rows[CaseName.DEAD_BROKER, STATIC], rows[CaseName.DEAD_BROKER, ADAPTIVE]
    assert static.owed == adaptive.owed
    assert static.share == pytest.approx(static.predicted_share)
    assert static.share < 1.0
    assert adaptive.share == adaptive.predicted_share == 1.0
    assert adaptive.noticed_ms is not None
    assert rows[CaseName.SLOW_ALINKS, STATIC].noticed_ms is None


@pytest.mark.soak
def test_finished_runs_are_only_read(workspace, folder, compared, monkeypatch):
    monkeypatch.setattr(runs, "play_on_brokers", None)
    monkeypatch.setattr(runs, "is_short", lambda _: False)
    assert list(compare_over_sockets(workspace, TINY, folder, SMALL)) == compared


@pytest.mark.soak
def test_a_run_short_of_cpu_is_played_again_and_then_marked(workspace, folder, compared, monkeypatch):
    played = []
    monkeypatch.setattr(runs, "play_on_brokers", lambda run, *_: played.append(run.run_id))
    monkeypatch.setattr(runs, "is_short", lambda place: place.name == "slow-alinks-12-adaptive-4")
    list(compare_over_sockets(workspace, TINY, folder, SMALL))
    assert played == ["slow-alinks-12-adaptive-4"] * runs.ATTEMPTS


@pytest.mark.soak
def test_other_links_make_other_runs(workspace, folder, compared, monkeypatch):
    monkeypatch.setattr(runs, "overlay_text", lambda name, spec, links, rate: overlay_text(name, spec, links, rate / 2))
    with pytest.raises(UsageError, match="to be the same run of the same workload, got another one"):
        list(compare_over_sockets(workspace, TINY, folder, SMALL))


def test_only_what_an_algorithm_promises_is_missing():
    found, missing = AuditRow("one", 100, 7, 0, 0), Missing(gone=4, cut_off=2, unexplained=1)
    assert judged_audit(found, missing, STATIC).missing == 1
    assert judged_audit(found, missing, ADAPTIVE).missing == 3
