"""Results of several evaluations in one folder."""

import dataclasses

from octopia.experiments.paper.reproduction import Results
from octopia.experiments.paper.rows import AuditRow, BurstRow, CostRow, SensitivityRow, SequenceRow, Tables


def burst(rate: int, seed: int, delay_ms: float = 1.0) -> BurstRow:
    return BurstRow(rate, "static", seed, 150, 10, delay_ms, 0.5, 1.0, 1.0, 10, 1.0, 1.0)


def test_values_that_are_run_again_replace_what_was_there():
    rows = (burst(100, 0), burst(100, 1), burst(200, 0))
    before = Results(Tables(bursts=rows, sequences=(SequenceRow(200, "static", 0, 0, 1.0, 1.0),)), ())
    now = (burst(100, 0, 9.0), burst(300, 0))
    tables = before.with_study(Tables(bursts=now)).tables
    assert tables.bursts == (burst(200, 0), *now)
    assert tables.sequences == before.tables.sequences


def test_rows_are_replaced_by_what_they_say_in_a_column():
    row = SensitivityRow("a", "b", "delay", "1% more")
    before = Results(Tables(sensitivity=(row, dataclasses.replace(row, quantity="queues"))), ())
    tables = before.with_rows("sensitivity", [dataclasses.replace(row, result="2% more")], "quantity").tables
    assert [(each.quantity, each.result) for each in tables.sensitivity] == [
        ("queues", "1% more"),
        ("delay", "2% more"),
    ]


def test_an_audit_replaces_that_of_the_same_run(tmp_path):
    before = Results(Tables(), (AuditRow("one", 5, 1, 0, 0), AuditRow("two", 5, 0, 0, 0)))
    after = before.with_audits([AuditRow("one", 5, 0, 0, 0)])
    assert [row.run for row in after.audits] == ["two", "one"]
    assert all(row.is_clean for row in after.audits)
    assert not before.audits[0].is_clean
    after.write(tmp_path)
    assert Results.read(tmp_path) == after


def test_what_other_code_took_is_forgotten():
    costs = (CostRow(1_000, "static", 10, 1.0, 1.0, 1.0, 1.0),)
    assert Results(Tables(costs=costs, bursts=(burst(100, 0),)), ()).without_costs().tables == Tables(
        bursts=(burst(100, 0),)
    )
