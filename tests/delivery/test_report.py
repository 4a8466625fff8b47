"""The report's page: everything it must tell, nothing it must load."""

import dataclasses
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from enginewright.delivery.report import ReportMaterial, render_report, write_report
from enginewright.delivery.report.figures import (
    group_figures,
    lineage_figure,
    selection_figure,
    speedup_figure,
    tactics_figure,
)
from enginewright.delivery.report.lineage import ancestry, search_steps, tree
from enginewright.delivery.report.wording import duration, improvement, metric_label, number
from enginewright.errors import MachineError

sys.path.insert(0, str(Path(__file__).parent))
from report_material import estimate, full_material

NOTHING = ReportMaterial(run="r1", target="t", state="running", started="2026-01-01")


class Page(HTMLParser):
    """Text, ids, and what the page would load; fails on elements that do not nest."""

    VOID = frozenset({"meta", "br", "hr", "img", "link"})

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.loads, self.text = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)
        self._note(tag, attrs)

    def handle_startendtag(self, tag, attrs):
        self._note(tag, attrs)

    def _note(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href") and not value.startswith("#"):
                self.loads.append(value)
        if tag in ("script", "link", "iframe", "img"):
            self.loads.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text.append(data)


def words(page):
    return " ".join(" ".join(page.text).split())


@pytest.fixture(scope="module")
def page():
    return Page(render_report(full_material()))


def test_the_page_loads_nothing_and_every_id_is_its_own(page):
    assert page.loads == []
    assert len(page.ids) == len(set(page.ids))
    assert "url(http" not in render_report(full_material())


def test_every_figure_has_a_title_and_a_description():
    material = full_material()
    drawn = [speedup_figure(material), lineage_figure(material), tactics_figure(material)]
    drawn += [svg for _, svg in group_figures(material)] + [selection_figure(material)]
    assert len(drawn) == 6
    for svg in drawn:
        root = ElementTree.fromstring(svg)
        assert root.attrib["role"] == "img"
        names = root.attrib["aria-labelledby"].split()
        told = {child.attrib.get("id"): child.text for child in root}
        assert all(told[name] for name in names)
        used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg))
        ids = set(re.findall(r'\bid="([^"]+)"', svg))
        assert {first or second for first, second in used} <= ids


def test_the_page_tells_figures_intervals_and_verdicts(page):
    told = words(page)
    for wanted in (
        "smollm2-135m.cpu",
        "11.6×",
        "71%",
        "127 to 135",
        "≥ 2.00 11.6 11.4 to 11.8 yes",
        "≤ 60.0 61.0 59.0 to 63.0 no",
        "llama.cpp",
        "kept faster",
        "machine busy",
        "5 kept, 16 rejected, 4 void",
        "Some Processor",
        "enginewright log r0123456789",
    ):
        assert wanted in told, wanted


def test_the_page_tells_how_the_judge_was_tested(page):
    told = words(page)
    for wanted in (
        "How the judge was tested",
        "0.9912 to 1.0123 over 8 blocks (95 %), which holds 1",
        "False promotions: 1 of 12 clones in this archive (95 %: 0 to 38 %).",
        "wrong output rejected: wrong rejected: wrong: regret 3 yes",
        "clone not kept kept: 1.02x no",
        "known slow rejected: slower void: contended says nothing",
        "tile 1.09× 1.06 to 1.12 1.04× 1.01 to 1.07",
        "whole search 12.3× 11.6×",
    ):
        assert wanted in told, wanted


def test_a_calibration_that_misses_one_and_a_run_without_one_say_so():
    judge = full_material().judge
    favoured = dataclasses.replace(judge.same, holds_one=False)
    for changed, wanted in (
        (dataclasses.replace(judge, same=favoured), "which does not hold 1"),
        (dataclasses.replace(judge, same=None), "Nothing was kept"),
        (dataclasses.replace(judge, sentinels=()), "No sentinel was judged"),
    ):
        material = dataclasses.replace(full_material(), judge=changed)
        assert wanted in words(Page(render_report(material)))


def test_the_plot_of_selection_shows_steps_and_the_whole_only_when_it_is_alone():
    material = full_material()
    assert "whole search" not in selection_figure(material)
    alone = dataclasses.replace(material.judge, gaps=material.judge.gaps[1:])
    assert "whole search" in selection_figure(dataclasses.replace(material, judge=alone))
    none = dataclasses.replace(material.judge, gaps=())
    assert selection_figure(dataclasses.replace(material, judge=none)) is None


def test_text_of_a_tactic_is_never_markup(page):
    assert "fuse <norms>" in words(page)
    assert "<norms>" not in render_report(full_material())


def test_a_run_that_has_nothing_yet_still_has_a_page():
    told = words(Page(render_report(NOTHING)))
    assert "running" in told
    assert "0 kept, 0 rejected, 0 void" in told
    for absent in ("Acceptance", "Lineage", "Verdicts", "Machine"):
        assert absent not in told


@pytest.mark.parametrize(
    "field",
    ["speedup", "floor_share", "champion", "acceptance", "engines", "trials", "groups", "judge"],
)
def test_any_part_may_be_missing(field):
    material = full_material()
    empty = () if isinstance(getattr(material, field), tuple) else None
    Page(render_report(dataclasses.replace(material, **{field: empty})))


def test_the_same_material_gives_the_same_page():
    assert render_report(full_material()) == render_report(full_material())


def test_the_champion_line_is_the_product_of_what_was_kept():
    steps = search_steps(full_material())
    assert steps[0].before == 1.0
    assert steps[-1].after == pytest.approx(8.0 * 1.09**5)
    rejected = next(step for step in steps if step.trial.verdict == "rejected")
    assert rejected.after == rejected.before
    assert rejected.speedup.value == pytest.approx(0.99 * rejected.before)
    void = next(step for step in steps if step.trial.verdict == "void")
    assert void.speedup is None


def test_the_tree_knows_depth_and_ancestors():
    material = full_material()
    nodes = {node.entry.candidate: node for node in tree(material)}
    assert nodes["c0"].depth == 0
    assert nodes["c2"].depth == 2
    assert nodes["c28"].depth == 6
    assert [entry.candidate for entry in ancestry(material)] == [
        "c0",
        "c1",
        "c2",
        "c6",
        "c13",
        "c20",
    ]
    assert not nodes["c28"].is_ancestor
    assert nodes["c5"].verdict is None


def test_one_leap_cuts_the_scale_and_small_steps_do_not():
    material = full_material()
    assert "axes_2" in speedup_figure(material)
    small = tuple(trial for trial in material.trials if trial.candidate != "c1")
    assert "axes_2" not in speedup_figure(dataclasses.replace(material, trials=small))


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    path = write_report(full_material(), tmp_path / "deep" / "report.html")
    assert path.read_text() == render_report(full_material())
    assert list(path.parent.iterdir()) == [path]
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match=r"report\.html: cannot be written"):
        write_report(NOTHING, tmp_path / "file" / "report.html")


def test_numbers_and_metrics_in_words():
    assert [number(value) for value in (0, 0.01234, 1.234, 12.34, 1234.5, -3)] == [
        "0",
        "0.0123",
        "1.23",
        "12.3",
        "1,234",
        "\N{MINUS SIGN}3.00",
    ]
    assert metric_label("chat.ttft_ms") == "Time to first token (chat), ms"
    assert metric_label("something") == "something"
    assert duration(900) == "900 ns"
    assert duration(1.5e6) == "1.50 ms"
    assert improvement("ttft_ms", estimate(10.0), estimate(5.0)) == 2.0
    assert improvement("decode_tokens_per_s", estimate(10.0), estimate(5.0)) == 0.5
    assert improvement("something", estimate(10.0), estimate(5.0)) is None
