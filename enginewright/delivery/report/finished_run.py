"""The last act of a run: profile its champion and write the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from enginewright.delivery.report.from_run import material_from_run
from enginewright.delivery.report.page import write_report, write_whole
from enginewright.delivery.report.profile import ProfiledEngine, profile_scenarios
from enginewright.errors import EngineError
from enginewright.retention import Archive, Store
from enginewright.target import Scenario


def report_finished_run(
    run_folder: Path,
    archive: Archive,
    store: Store,
    *,
    result: dict[str, Any],
    champion: ProfiledEngine,
    scenarios: Sequence[Scenario],
) -> Path:
    """Write `profile.json` and `report.html` into `run_folder`; the page.

    A champion that cannot be profiled costs the page its profile, and the page says why.

    Raises: ArchiveError if the archive is damaged; MachineError if the disk refuses.
    """
    try:
        profile: Any = profile_scenarios(champion, scenarios)
    except EngineError as error:
        profile = {"error": error.message}
    write_whole(run_folder / "profile.json", json.dumps(profile, indent=1) + "\n")
    material = material_from_run(run_folder, archive, store, result=result)
    return write_report(material, run_folder / "report.html")
