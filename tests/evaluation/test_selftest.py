"""The judge's own test has teeth too."""

from __future__ import annotations

import pytest

from enginewright.evaluation import selftest as under_test
from enginewright.evaluation.selftest import GATES, selftest


def test_every_gate_and_bound_matters() -> None:
    mutations = selftest()
    assert {f"without {gate}" for gate in GATES} <= {held.name for held in mutations}
    assert [held.name for held in mutations if not held.slipped] == []


def test_a_gate_that_passes_everything_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = under_test.check_together

    def blind(seen):  # type: ignore[no-untyped-def]
        return honest(under_test.replace(seen, together=seen.answers))

    monkeypatch.setattr(under_test, "check_together", blind)
    with pytest.raises(AssertionError, match="another answer among others"):
        selftest()
