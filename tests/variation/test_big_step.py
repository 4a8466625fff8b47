from pathlib import Path

import pytest

from enginewright.model.families import build_graph
from enginewright.model.read_checkpoint import read_checkpoint
from enginewright.plan import Allowed, check_plan, load_library, naive_plan
from enginewright.settings import SOURCE_ROOT
from enginewright.variation import big_step

TINY = Path(__file__).parent.parent / "goldens/tiny"
AVX2 = frozenset({"avx2", "fma", "f16c"})


@pytest.mark.parametrize("name", ["llama_biases_linear_f16", "bert_mean"])
def test_one_step_leads_from_naive_to_a_legal_plan_with_fewer_groups(name):
    graph = build_graph(read_checkpoint(TINY / name))
    library = load_library(SOURCE_ROOT / "kernels/cpu")
    naive = naive_plan(graph, library, 2)
    allowed = Allowed(features=AVX2, numerics=frozenset())
    changed = big_step(naive, graph, library, allowed=allowed)
    check_plan(changed, graph, library, allowed)
    for step, groups in changed.steps.items():
        assert len(groups.groups) < len(naive.steps[step].groups)
    assert changed.numerics == ()


def test_a_processor_without_features_keeps_the_naive_plan():
    graph = build_graph(read_checkpoint(TINY / "bert_mean"))
    library = load_library(SOURCE_ROOT / "kernels/cpu")
    naive = naive_plan(graph, library, 2)
    allowed = Allowed(features=frozenset(), numerics=frozenset())
    changed = big_step(naive, graph, library, allowed=allowed)
    assert all("avx" not in feature for feature in changed.requires)
