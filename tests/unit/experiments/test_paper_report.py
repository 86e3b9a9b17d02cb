import dataclasses
import html
import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import paper_rows as make
import pytest
from paper_rows import OCTOPIA, TID
from socket_rows import delayed

from octopia.experiments.audits import AuditRow
from octopia.experiments.charts import FigureFile
from octopia.experiments.page import to_markdown, without_clock
from octopia.experiments.paper.burst_blocks import recovery_blocks
from octopia.experiments.paper.claims import CLAIMS
from octopia.experiments.paper.comparisons import Comparison, Ours
from octopia.experiments.paper.manifest import Manifest, StudyNote
from octopia.experiments.paper.names import Model, Scale, StudyName
from octopia.experiments.paper.report import write_report
from octopia.experiments.paper.rows import (
    CostRow,
    DecisiveRow,
    LoadRow,
    PublisherRow,
    SensitivityRow,
    Tables,
)
from octopia.experiments.paper.verdicts import Claim, Measure
from octopia.experiments.sockets.rows import CpuSupply
from octopia.pipeline.spec import HostKind
from octopia.settings import Algorithm

STATIC, DYNAMIC = Algorithm.STATIC, Algorithm.DYNAMIC

TABLES = Tables(
    publishers=(
        make.publishers(100, OCTOPIA, table_size_mean=100 / 14, advertisement_messages=300),
        make.publishers(
            100,
            TID,
            advertisement_delay_ms=3.66,
            table_size_mean=100.0,
            advertisement_messages=21_700,
            duplicate_share=162 / 217,
        ),
    ),
    costs=tuple(CostRow(1_000, algorithm, 10, 12.5, 1.0, 1.0, 20.0) for algorithm in make.PAPER),
    bursts=(
        make.burst(make.STATIC, 8_000.0, 300_000.0, seconds=61.25),
        make.burst(make.ADAPTIVE, 900.0, 50_000.0, seconds=61.25),
    ),
    bounds=(make.bound(304_000.0, 43_300.0),),
    sockets=(delayed(STATIC, 9252.25, 8848.5), delayed(DYNAMIC, 52.25, 48.5, processors=CpuSupply.SHORT)),
    sensitivity=(
        SensitivityRow("all", "as the profile says", "publication delay", "9% more"),
        SensitivityRow("delay of a link, 0.15 ms", "0.3 ms", "publication delay", "12% more"),
        SensitivityRow("jitter, 0.1 ms", "none", "publication delay", "9% more"),
        SensitivityRow("sending, 3 ms", "1 ms", "publication delay", "no difference"),
        SensitivityRow("all", "as the profile says", "queues", "2% less"),
        SensitivityRow("jitter, 0.1 ms", "none", "queues", "2% less"),
    ),
    loads=(LoadRow(Model.LINKS, TID, 0, 1_000, 140.2, 120.5, 0.25),),
    decisive=(
        DecisiveRow("one per link", "races", HostKind.EDGE, "delay", "3% less"),
        DecisiveRow("one per broker", "races", HostKind.EDGE, "delay", "60% less"),
    ),
    audits=(AuditRow("burst dynamic 1", 40_000_000, 0, 0, 0), AuditRow("delivery static 1", 20_000, 1, 2, 3)),
)
MANIFEST = Manifest(
    scale=Scale.LAPTOP,
    data="a made-up market",
    studies={StudyName.BURST: StudyNote((1, 2, 3), "8a4d8d6")},
    deliveries_a_point=500,
    profiles={Model.LINKS: {"name": "paper", "link_delay_ms": 0.15}},
    commit="8a4d8d6",
    versions={"python": "3.11"},
    machine="2 cores",
    again="octopia paper --scale laptop",
    started="2026-11-16 06:00",
    finished="2026-11-16 06:10",
)


def changed(**changes) -> Manifest:
    return msgspec.structs.replace(MANIFEST, **changes)


def figure(folder: Path) -> FigureFile:
    png = folder / "figures" / "fig 07.png"
    return FigureFile("fig 07", "Fig. 7: Delay", png, png.with_suffix(".svg"), "Look at <this>.")


def written(folder: Path, tables: Tables = TABLES, claims=CLAIMS, manifest=MANIFEST) -> tuple[str, str]:
    paths = write_report(folder, tables, claims, [figure(folder)], manifest)
    assert [path.name for path in paths] == ["report.md", "report.html"]
    return paths[0].read_text(), paths[1].read_text()


def rows_of(markdown: str, first: str) -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in markdown.splitlines() if line.startswith(f"| {first}")]


class Tags(HTMLParser):
    """Tags that are open, and addresses that are linked to."""

    def __init__(self):
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_every_claim_has_its_row(tmp_path: Path):
    markdown, page = written(tmp_path)
    for claim in CLAIMS:
        assert html.escape(claim.sentence) in page
        assert html.escape(claim.paper) in page
        assert claim.sentence in markdown
        assert html.escape(claim.decided_by) in page
        assert claim.reading in markdown
    [claimed, decided] = [row for row in rows_of(markdown, "Fig. 7") if "Advertisements" in row[1]]
    assert claimed[2:] == ["266% higher", "266% higher: agrees"]
    assert decided[2].startswith("The number of hops")
    assert '<span class="verdict agrees">266% higher: agrees</span>' in page
    assert "Some runs are" not in page


def test_adaptive_routing_stands_beside_the_bounds(tmp_path: Path):
    markdown, _ = written(tmp_path)
    rows = [row for row in rows_of(markdown, "100,000") if row[1] == "links, edge host"]
    assert [row[2:4] for row in rows] == [
        ["SPR, static", "300 s"],
        ["adaptive", "50.0 s"],
        ["bound for SPR", "304 s"],
        ["bound for any routing", "43.3 s"],
    ]
    [stable] = [row for row in rows_of(markdown, "100,000") if row[1:3] == ["links", "edge"]]
    assert stable[2:] == ["edge", "1", "300 s", "50.0 s", "304 s", "43.3 s"]


def test_several_seeds_have_a_spread(tmp_path: Path):
    more = make.burst(make.STATIC, 8_000.0, 320_000.0, seed=2)
    markdown, _ = written(tmp_path, dataclasses.replace(TABLES, bursts=(*TABLES.bursts, more)))
    [stable] = [row for row in rows_of(markdown, "100,000") if row[1:3] == ["links", "edge"]]
    assert stable[3:5] == ["2", "310 s (300 to 320)"]


def test_a_mean_over_fewer_seeds_says_so(tmp_path: Path):
    more = make.burst(make.STATIC, 8_000.0, 320_000.0, seed=2)
    bounds = (*TABLES.bounds, make.bound(999_000.0, 99_000.0, seed=3))
    markdown, _ = written(tmp_path, dataclasses.replace(TABLES, bursts=(*TABLES.bursts, more), bounds=bounds))
    [stable] = [row for row in rows_of(markdown, "100,000") if row[1:3] == ["links", "edge"]]
    # A bound of a seed that was not run is not shown.
    assert stable[4:] == ["310 s (300 to 320)", "50.0 s, 1 seed", "304 s", "43.3 s"]


def test_runs_that_a_result_leaves_out_are_named(tmp_path: Path):
    bursts = [
        make.burst(make.DYNAMIC, 1.0, 1_000.0),
        make.burst(make.STATIC, 1.0, 3_000.0),
        make.burst(make.DYNAMIC, 1.0, 1_000.0, seed=2),
        make.burst(make.STATIC, 1.0, None, seed=2),
    ]
    markdown, _ = written(tmp_path, Tables(bursts=tuple(bursts)))
    [row, *_] = [row for row in rows_of(markdown, "Figs. 17-20") if "IDR is stable before SPR" in row[1]]
    assert "of 2 pairs both were stable in 1, only the first in 1, only the second in 0" in row[3]


def test_a_model_that_holds_from_another_is_not_counted_again(tmp_path: Path):
    bursts = [make.burst(algorithm, 1.0, 1_000.0) for algorithm in (make.STATIC, make.DYNAMIC)]
    bursts += [make.burst(make.TID_STATIC, 1.0, 2_000.0, model=model) for model in (Model.LINKS, Model.RACE_TREES)]
    markdown, _ = written(tmp_path, Tables(bursts=tuple(bursts)))
    [row, *_] = [row for row in rows_of(markdown, "Figs. 17-20") if "IDR is stable before SPR" in row[1]]
    assert row[3:] == ["at the same time: differs", "as links"]
    counts = [row for row in rows_of(markdown, "bursts | ") if "host" in row[1]]
    assert [row[1] for row in counts] == ["links, edge host", "race-trees, edge host"]
    totals = [sum(map(int, row[2:])) for row in counts]
    assert totals[0] > totals[1]


def test_decisive_assumptions_are_a_table(tmp_path: Path):
    markdown, _ = written(tmp_path)
    assert rows_of(markdown, "one per") == [
        ["one per link", "races", "edge", "3% less"],
        ["one per broker", "races", "edge", "60% less"],
    ]


def test_ordinary_loads_are_a_table(tmp_path: Path):
    markdown, _ = written(tmp_path)
    assert ["links", "TID", "0", "1,000", "140 per second", "120 per second", "25.0%"] in rows_of(markdown, "links")


def test_lengths_of_paths_are_a_table(tmp_path: Path):
    runs = [
        make.delivery(1_000, make.STATIC, path_length_mean=3.4),
        make.delivery(2_000, make.STATIC, path_length_mean=3.6),
        make.delivery(1_000, make.TID_STATIC, path_length_mean=3.45),
        make.delivery(1_000, make.TID_STATIC, path_length_mean=5.25, model=Model.RACE_TREES),
    ]
    markdown, _ = written(tmp_path, dataclasses.replace(TABLES, delivery=tuple(runs)))
    lengths = markdown.partition("## Lengths of paths")[2].partition("\n## ")[0]
    assert "| links | 3.50 (3.40 to 3.60) | 3.45 |" in lengths
    assert "| race-trees | 3.50 (3.40 to 3.60) | 5.25 |" in lengths


def test_what_agrees_under_no_model_is_listed(tmp_path: Path):
    other = dataclasses.replace(TABLES.publishers[1], advertisement_delay_ms=1.0)
    tables = dataclasses.replace(TABLES, publishers=(TABLES.publishers[0], other))
    markdown, _ = written(tmp_path, tables)
    missed = markdown.partition("## What we could not reproduce")[2].partition("\n## ")[0]
    assert "266% higher | differs" in missed
    assert "88.5 times" not in missed


def test_known_losses_are_told(tmp_path: Path):
    audits = (*TABLES.audits, AuditRow("burst-tid-dynamic-per-hop", 990, 10, 0, 0, may_miss=True))
    _, page = written(tmp_path, dataclasses.replace(TABLES, audits=audits))
    assert "10 of 1,000 in 1 run, from 1.00% to 1.00% of a run" in page


def test_what_was_run_is_said(tmp_path: Path):
    markdown, page = written(tmp_path)
    for text in (
        "laptop",
        "1, 2, 3",
        "profiles.links.link_delay_ms",
        "0.15",
        "8a4d8d6",
        "2 cores",
        "100 publishers, 1 seed",
    ):
        assert text in markdown
        assert text in page
    assert ["subscribers", "not run", "1,000 to 10,000 subscribers", "not run"] in rows_of(markdown, "subscribers")
    assert "40,020,000 deliveries of 2 runs were compared with the truth: 1 missing, 2 unwanted, 3 duplicate" in page
    assert rows_of(markdown, "delivery static") == [["delivery static 1", "20,000", "1", "2", "3"]]
    assert not rows_of(markdown, "burst dynamic"), "only runs with a fault are listed"
    assert "In the other runs, every subscriber received what it was owed" in page
    assert rows_of(markdown, "publication delay") == [
        [
            "publication delay",
            "9% more",
            "12% more with delay of a link, 0.15 ms → 0.3 ms; no difference with sending, 3 ms → 1 ms",
            "with jitter, 0.1 ms → none",
        ]
    ]
    assert rows_of(markdown, "queues") == [
        ["queues", "2% less", "nothing else", "with jitter, 0.1 ms → none"],
    ]
    assert "    octopia paper --scale laptop\n" in markdown


def test_the_summary_counts_verdicts(tmp_path: Path):
    markdown, page = written(tmp_path)
    [quiet] = rows_of(markdown, "the other studies")
    # Fig. 7, 8 and both claims of Fig. 9; what the paper does not print is not counted.
    assert quiet[1:3] == ["links", "4"]
    [bursts] = rows_of(markdown, "bursts | links")
    assert bursts[1:3] == ["links, edge host", "0"]
    assert "<p>Of the 5 claims by the clock of this machine" in page


def test_runs_over_sockets_stand_beside_simulated_ones(tmp_path: Path):
    markdown, _ = written(tmp_path)
    static, dynamic, order = rows_of(markdown, "12 (seed 4)")
    assert static[1:7] == [STATIC, "8,000", "100.0%", "100.0%", "9,252.2 ms", "8,848.5 ms"]
    assert dynamic[-2:] == ["25%", "SHORT"]
    assert order[1:] == ["static and dynamic", DYNAMIC, "182", DYNAMIC, "177", "confirmed, but CPUs were short"]


def test_the_page_stands_alone(tmp_path: Path):
    _, page = written(tmp_path)
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert not {"script", "link", "iframe"} & set(tags.seen)
    assert tags.addresses[:2] == ["figures/fig%2007.svg", "figures/fig%2007.png"]
    assert tags.addresses[2:] == ["figures/sockets-slow-alinks.svg", "figures/sockets-slow-alinks.png"]
    assert "http" not in page
    assert "prefers-color-scheme: dark" in page


def test_markup_is_escaped(tmp_path: Path):
    bad = "<script>alert('1')</script> a|b [x](y) `z` *w* {style} <!-- /clock -->"
    comparison = Comparison(PublisherRow, lambda _: Ours(bad, 1.0, bad, bad), (OCTOPIA, TID))
    claim = Claim(bad, bad, bad, 1.0, Measure.RATIO, comparison, bad)
    tables = dataclasses.replace(TABLES, bursts=())
    markdown, page = written(
        tmp_path, tables, [claim], changed(data=bad, started=bad, profiles={Model.LINKS: {bad: bad}})
    )
    for text in (markdown, page):
        assert "<script>" not in text
        assert text.count("<!-- clock -->") == text.count("<!-- /clock -->") > 0
        assert "Look at &lt;this&gt;." in text
    assert r"a\|b \[x\](y) \`z\` \*w\*" in markdown
    rows = [row for row in markdown.splitlines() if row.startswith("| ") and "&lt;" in row]
    assert {len(re.split(r"(?<!\\)\|", row)) for row in rows} == {4, 5, 6}
    tags = Tags()
    tags.feed(page)
    assert tags.open == []


def test_the_same_input_gives_the_same_bytes(tmp_path: Path):
    assert written(tmp_path / "a") == written(tmp_path / "b")


def test_reports_differ_only_in_what_the_clock_measured(tmp_path: Path):
    slower = dataclasses.replace(
        TABLES,
        costs=tuple(dataclasses.replace(row, match_us=99.0 if "tid" in row.algorithm else 1.0) for row in TABLES.costs),
        bursts=tuple(dataclasses.replace(row, seconds=99.0) for row in TABLES.bursts),
    )
    later = changed(started="2027-01-01", finished="2027-01-02")
    first, second = written(tmp_path / "a"), written(tmp_path / "b", slower, manifest=later)
    assert first[0] != second[0]
    assert first[1] != second[1]
    assert [without_clock(text) for text in first] == [without_clock(text) for text in second]
    assert "2026-11-16" not in without_clock(first[1])
    assert "61.2" in first[0]


@pytest.mark.parametrize("change", [{"scale": Scale.PAPER}, {"commit": "other"}])
def test_other_differences_stay(tmp_path: Path, change: dict[str, str]):
    first, second = written(tmp_path / "a"), written(tmp_path / "b", manifest=changed(**change))
    assert without_clock(first[0]) != without_clock(second[0])
    assert without_clock(first[1]) != without_clock(second[1])


def test_a_report_of_nothing_says_so(tmp_path: Path):
    markdown, _ = write_report(tmp_path, Tables(), CLAIMS, [], MANIFEST)
    text = markdown.read_text()
    assert text.count("Not run.") == 9
    assert "Not drawn." in text
    assert "    octopia paper --scale laptop\n" in text


@pytest.mark.parametrize(("stable_ms", "text"), [(0.0, "never above 1 s"), (2500.0, "2.50 s"), (None, "never")])
def test_a_run_may_be_stable_from_the_start_or_never(stable_ms: float | None, text: str):
    page = to_markdown(recovery_blocks(Tables(bursts=(make.burst(make.STATIC, stable_ms=stable_ms),))))
    assert f"| 1 | {text} |" in page
