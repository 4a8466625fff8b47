"""kernels/cpu/README.md names every kernel of the library, and none that is gone."""

import itertools
import re

from enginewright.settings import load_settings


def spelt_out(name: str) -> list[str]:
    """`a_{b,c}_d` as `a_b_d` and `a_c_d`."""
    parts = [part.split(",") for part in re.split(r"[{}]", name)]
    return ["".join(chosen) for chosen in itertools.product(*parts)]


def test_the_table_names_every_kernel_and_no_other(library):
    text = (load_settings().kernels / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z0-9_{},…]+)` \|", text.split("## The library")[1], re.MULTILINE)
    named = {one for row in rows for one in spelt_out(row) if "…" not in one}
    floats = {name.replace("_avx2", "_float_avx2") for name in named if "projections" in name}
    assert "projections_{…}_float_avx2" in rows
    named |= floats
    named |= {name.replace("_avx2", "_avx512") for name in named}
    assert {name for name in library if not name.startswith("naive_")} == named
