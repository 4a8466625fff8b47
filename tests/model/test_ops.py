"""What the recorded models do not reach: ops at their edges."""

from __future__ import annotations

import numpy as np

from enginewright.model.graph import Attribute, Op
from enginewright.model.ops import OPS, Cache, Floats, Step, whole_sequences


def run(
    kind: str, inputs: list[Floats], weights: list[Floats], step: Step, **attributes: Attribute
):
    op = Op(id="x", kind=kind, inputs=[], outputs=[], attributes=attributes)
    return OPS[kind](op, inputs, weights, step)


def random(*shape: int) -> Floats:
    return np.random.default_rng(5).normal(size=shape).astype(np.float32)


def test_positions_are_shifted_by_their_offset() -> None:
    tokens, positions = random(4, 3), random(6, 3)
    step = whole_sequences([[3, 1], [0]])
    (x,) = run(
        "embed", [], [tokens, positions], step, tables=["token", "position"], position_offset=2
    )
    np.testing.assert_allclose(x, tokens[[3, 1, 0]] + positions[[2, 3, 2]], atol=1e-6)


def test_values_behind_the_rotary_part_stay() -> None:
    x = random(3, 16)
    frequencies = np.array([1.0, 0.1], np.float32)
    for pairing in ("adjacent", "half"):
        shape = {"heads": 2, "head_dim": 8, "rotary": 4, "magnitude": 1.0}
        (y,) = run("rope", [x], [frequencies], whole_sequences([[0] * 3]), pairing=pairing, **shape)
        before, after = x.reshape(3, 2, 8), y.reshape(3, 2, 8)
        np.testing.assert_array_equal(after[..., 4:], before[..., 4:])
        np.testing.assert_array_equal(after[0], before[0])
        lengths = [np.linalg.norm(part[..., :4], axis=-1) for part in (before, after)]
        np.testing.assert_allclose(lengths[0], lengths[1], rtol=1e-6)
        assert not np.allclose(after[1], before[1])


def test_silu_and_gelu_hold_at_large_values() -> None:
    x = np.array([[-1e4, -100.0, 0.0, 100.0, 1e4]], np.float32)
    step = whole_sequences([[0]])
    with np.errstate(all="raise", under="ignore"):
        (silu,) = run("silu_mul", [x, np.ones_like(x)], [], step)
        gelus = [run("gelu", [x], [], step, form=form)[0] for form in ("erf", "tanh")]
    for y in (silu, *gelus):
        np.testing.assert_allclose(y, [[0, 0, 0, 100, 1e4]], atol=1e-6)


def test_softmax_holds_at_large_scores() -> None:
    q = np.full((2, 4), 1e4, np.float32)
    v = random(2, 4)
    (a,) = run(
        "self_attention", [q, q, v], [], whole_sequences([[0, 0]]), heads=1, head_dim=4, scale=0.5
    )
    np.testing.assert_allclose(a, np.broadcast_to(v.mean(axis=0), (2, 4)), atol=1e-6)


def test_a_zero_vector_is_normalised_to_zero() -> None:
    (y,) = run("l2_norm", [np.zeros((1, 4), np.float32)], [], whole_sequences([[0]]), epsilon=1e-12)
    assert y.tolist() == [[0, 0, 0, 0]]


def test_a_row_sees_its_own_slot_up_to_its_own_position() -> None:
    cache = Cache(keys=random(3, 8, 1, 4), values=random(3, 8, 1, 4))
    step = Step(
        token_ids=np.array([0, 0]),
        positions=np.array([5, 2]),
        slots=np.array([2, 0]),
        starts=np.array([0, 1, 2]),
        selected_rows=np.array([0, 1]),
        caches={0: cache},
    )
    attributes = {"layer": 0, "heads": 1, "kv_heads": 1, "head_dim": 4, "scale": 0.5}
    q = random(2, 4)
    before = run("attention", [q], [], step, window=0, **attributes)[0]
    cache.keys[1] = cache.values[1] = np.nan
    cache.keys[2, 6:] = cache.keys[0, 3:] = np.nan
    np.testing.assert_array_equal(
        run("attention", [q], [], step, window=0, **attributes)[0], before
    )
    (narrow,) = run("attention", [q], [], step, window=1, **attributes)
    np.testing.assert_allclose(narrow, [cache.values[2, 5, 0], cache.values[0, 2, 0]], atol=1e-6)
