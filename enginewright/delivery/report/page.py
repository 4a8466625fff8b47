"""The report as one self-contained HTML page."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jinja2

from enginewright.delivery.report import wording
from enginewright.delivery.report.figures import (
    group_figures,
    lineage_figure,
    selection_figure,
    speedup_figure,
    tactics_figure,
)
from enginewright.delivery.report.lineage import ancestry, search_steps
from enginewright.delivery.report.material import EngineFigures, Estimate, ReportMaterial
from enginewright.errors import MachineError

_HEADLINE = (
    "decode_tokens_per_s",
    "prefill_tokens_per_s",
    "ttft_ms",
    "texts_per_s",
    "request_ms",
    "peak_memory_mib",
)
_MOST_HEADLINES = 4
_SIDES = {">=": "≥", "<=": "≤"}


def write_report(material: ReportMaterial, path: Path) -> Path:
    """Write the page to `path`, whole or not at all; `path`.

    Raises: MachineError if the disk refuses.
    """
    write_whole(path, render_report(material))
    return path


def write_whole(path: Path, text: str) -> None:
    """Write `text` to `path`, whole or not at all.

    Raises: MachineError if the disk refuses.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".partial.", dir=path.parent)
        partial = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            partial.chmod(0o644)
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise MachineError(
            f"{path}: cannot be written: {error}",
            hint="check that the folder can be written and that the disk has room",
        ) from error


def render_report(material: ReportMaterial) -> str:
    """The page's text; the same material gives the same text."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("report.html.j2").render(
        m=material,
        version=_version(),
        number=wording.number,
        interval=wording.interval,
        ratio=wording.ratio,
        metric_label=wording.metric_label,
        sides=_SIDES,
        headline=_headline(material),
        counts=_counts(material),
        comparison=_comparison(material),
        speedup_svg=speedup_figure(material),
        lineage_svg=lineage_figure(material),
        ancestry=_ancestry(material),
        group_svgs=group_figures(material),
        tactics_svg=tactics_figure(material),
        selection_svg=selection_figure(material),
        rows=_rows(material),
        fact_tables=_fact_tables(material),
    )


def _engine(material: ReportMaterial, name: str) -> EngineFigures | None:
    return next((engine for engine in material.engines if engine.name == name), None)


def _headline(material: ReportMaterial) -> list[tuple[str, Estimate]]:
    champion = _engine(material, "champion")
    if champion is None:
        return []
    held = [name for name in _HEADLINE if name in champion.metrics]
    return [(wording.metric_label(name), champion.metrics[name]) for name in held[:_MOST_HEADLINES]]


def _counts(material: ReportMaterial) -> dict[str, int]:
    found = Counter(step.trial.verdict for step in search_steps(material))
    return {
        "total": found.total(),
        "kept": found["kept"],
        "rejected": found["rejected"],
        "void": found["void"],
    }


def _comparison(material: ReportMaterial) -> list[dict[str, Any]]:
    names = dict.fromkeys(name for engine in material.engines for name in engine.metrics)
    naive, champion = _engine(material, "naive"), _engine(material, "champion")
    rows = []
    for name in names:
        gain = None
        if naive and champion and name in naive.metrics and name in champion.metrics:
            gain = wording.improvement(name, naive.metrics[name], champion.metrics[name])
        rows.append(
            {
                "label": wording.metric_label(name),
                "percent": name.endswith("floor_share"),
                "cells": [engine.metrics.get(name) for engine in material.engines],
                "gain": gain,
            }
        )
    return rows


def _ancestry(material: ReportMaterial) -> list[dict[str, Any]]:
    effects = {
        trial.candidate: trial.effect
        for trial in material.trials
        if trial.verdict == "kept" and trial.effect is not None and trial.stage != "confirm"
    }
    return [
        {"entry": entry, "effect": effects.get(entry.candidate)} for entry in ancestry(material)
    ]


def _rows(material: ReportMaterial) -> list[dict[str, Any]]:
    entries = {entry.candidate: entry for entry in material.candidates}
    rows = []
    for trial in material.trials:
        entry = entries.get(trial.candidate)
        has_parent = entry is not None and entry.parent is not None
        rows.append(
            {
                "trial": trial,
                # The judge's line begins with the verdict, which has a place of its own.
                "reason": (trial.reason or "").removeprefix(f"{trial.verdict}: "),
                "tactic": entry.tactic if entry else "",
                "hypothesis": entry.hypothesis if entry else "",
                # The first engine is compared with none, so a prediction of it says nothing.
                "predicted": entry.predicted_effect if entry and has_parent else None,
            }
        )
    return rows


def _fact_tables(
    material: ReportMaterial,
) -> list[tuple[str, str, str, tuple[tuple[str, str], ...]]]:
    tables = [
        (
            "machine",
            "Machine and tools",
            "What all of this was measured on.",
            material.environment,
        ),
        (
            "inputs",
            "What went in",
            "Digests and seeds: the same of these give the same candidates and the same inputs; "
            "times depend on the machine.",
            material.inputs,
        ),
    ]
    return [table for table in tables if table[3]]


def _version() -> str:
    try:
        return version("enginewright")
    except PackageNotFoundError:
        return "(not installed)"
