"""Check and time the float kernels, one thread's share at a time.

    python benchmarks/kernels/float_time.py [avx512|avx2] [PARAMETER=VALUE ...]

Prints, for shapes of all-MiniLM-L6-v2 (encoder) and SmolLM2-135M (decoder attention), the least
time of the busiest thread, GFLOP/s or GB/s, and the largest difference from float64.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from float_call import Group, aligned, build, float_bits
from numpy.typing import NDArray

RANDOM = np.random.default_rng(0)
EPSILON = 1e-12
Array = NDArray[np.generic]


def normal(*shape: int, dtype: str = "float32") -> Array:
    """Normal values at a 64-byte boundary."""
    array = aligned(shape, dtype)
    array[...] = RANDOM.standard_normal(shape)
    return array


def rows_of(count: int) -> dict[str, Array]:
    """Positions, slots and starts of one segment."""
    return {
        "positions": np.arange(count, dtype=np.uint32),
        "slots": np.zeros(count, np.uint32),
        "starts": np.array([0, count], np.uint32),
    }


def report(name: str, group: Group, threads: int, work: tuple[float, str], wanted: Array) -> None:
    """Run, compare and print one line."""
    seconds = group.time(group.prepare(threads), 20)
    error = float(np.abs(group.outputs[0] - wanted).max())
    rate = work[0] / seconds / 1e9
    print(
        f"{name:44s} threads {threads}: {seconds * 1e6:9.1f} us "
        f"{rate:7.1f} {work[1]}/s, off by {error:.1e}"
    )


def linear(
    tier: str, parameters: dict[str, str], shape: tuple[int, int, int], then: str, threads: int
) -> None:
    """`linear` of rows x in x out, followed by `then`."""
    rows, inputs, outputs = shape
    x, matrix, bias = normal(rows, inputs), normal(outputs, inputs), normal(outputs)
    matrix *= np.float32(inputs**-0.5)
    weights, buffers = [matrix, bias], [x]
    wanted = x.astype("f8") @ matrix.astype("f8").T + bias
    if then == "gelu":
        wanted = wanted * 0.5 * (1 + np.vectorize(math.erf)(wanted / math.sqrt(2)))
    if then == "add layer_norm":
        buffers.append(normal(rows, outputs))
        weights += [normal(outputs), normal(outputs)]
        wanted = wanted + buffers[1]
        wanted = (wanted - wanted.mean(1, keepdims=True)) / wanted.std(1, keepdims=True)
        wanted = wanted * weights[2] + weights[3]
    constants = {"EW_OPS": f"linear {then}".strip(), "EW_ROWS": rows, "EW_OP1_FORM": "erf"}
    constants |= {
        "EW_OP0_IN": inputs,
        "EW_OP0_OUT": outputs,
        "EW_OP0_BIAS": 1,
        "EW_OP0_DTYPE": "f32",
    }
    constants |= {"EW_OP2_EPSILON_BITS": float_bits(EPSILON)} | parameters
    group = Group(
        library=build(f"float_linear_{tier}", constants),
        inputs=buffers,
        outputs=[aligned((rows, outputs))],
        weights=weights,
        **rows_of(rows),
    )
    name = f"linear {then} {rows}x{inputs}x{outputs}"
    report(name, group, threads, (2.0 * rows * inputs * outputs, "GFLOP"), wanted)


def softmax_of(scores: Array) -> Array:
    """Along the last axis."""
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True))


def encoder_attention(tier: str, parameters: dict[str, str], rows: int) -> None:
    """Twelve heads of 32, one segment."""
    heads, width = 12, 32
    q, k, v = (normal(rows, heads * width) for _ in range(3))
    q3, k3, v3 = (x.astype("f8").reshape(rows, heads, width).swapaxes(0, 1) for x in (q, k, v))
    weights = softmax_of(q3 @ k3.swapaxes(1, 2) * width**-0.5)
    wanted = (weights @ v3).swapaxes(0, 1).reshape(rows, -1)
    constants = {"EW_OPS": "self_attention", "EW_ROWS": rows, "EW_OP0_HEADS": heads}
    constants |= {
        "EW_OP0_HEAD_DIM": width,
        "EW_OP0_SCALE_BITS": float_bits(width**-0.5),
    } | parameters
    group = Group(
        library=build(f"self_attention_{tier}", constants),
        inputs=[q, k, v],
        outputs=[aligned(q.shape)],
        weights=[],
        **rows_of(rows),
    )
    report(
        f"self_attention {rows} rows",
        group,
        1,
        (4.0 * rows * rows * heads * width, "GFLOP"),
        wanted,
    )


def decode_attention(
    tier: str, parameters: dict[str, str], context: int, dtype: str, threads: int
) -> None:
    """Nine query heads, three of keys, of 64; one row at the end of `context` positions."""
    heads, kv_heads, width = 9, 3, 64
    stored = {"f32": "float32", "f16": "float16"}[dtype]
    keys, values = (normal(1, context, kv_heads, width, dtype=stored) for _ in range(2))
    q = normal(1, heads * width)
    grouped = q.astype("f8").reshape(kv_heads, heads // kv_heads, width)
    weights = softmax_of(grouped @ keys[0].astype("f8").transpose(1, 2, 0) * width**-0.5)
    wanted = (weights @ values[0].astype("f8").swapaxes(0, 1)).reshape(1, -1)
    constants = {"EW_OPS": "attention", "EW_OP0_HEADS": heads, "EW_OP0_KV_HEADS": kv_heads}
    constants |= {"EW_OP0_HEAD_DIM": width, "EW_OP0_WINDOW": 0, "EW_CACHE_DTYPE": dtype}
    constants |= {"EW_OP0_SCALE_BITS": float_bits(width**-0.5)} | parameters
    group = Group(
        library=build(f"attention_decode_{tier}", constants),
        inputs=[q],
        outputs=[aligned(q.shape)],
        weights=[],
        positions=np.array([context - 1], np.uint32),
        slots=np.zeros(1, np.uint32),
        starts=np.array([0, 1], np.uint32),
        keys=keys,
        values=values,
        capacity=context,
    )
    report(
        f"attention, context {context}, {dtype}", group, threads, (2.0 * keys.nbytes, "GB"), wanted
    )


def main() -> None:
    """Every shape, at one and two threads."""
    tier = next((text for text in sys.argv[1:] if "=" not in text), "avx512")
    parameters = {
        f"EW_PARAM_{k}": v for k, v in (text.split("=") for text in sys.argv[1:] if "=" in text)
    }
    for rows in (1, 16, 128):
        for threads in (1, 2):
            linear(tier, parameters, (rows, 384, 384), "", threads)
            linear(tier, parameters, (rows, 384, 1536), "gelu", threads)
            linear(tier, parameters, (rows, 1536, 384), "add layer_norm", threads)
    for rows in (16, 128):
        encoder_attention(tier, parameters, rows)
    for context in (64, 1024, 4096):
        for dtype in ("f32", "f16"):
            for threads in (1, 2):
                decode_attention(tier, parameters, context, dtype, threads)


if __name__ == "__main__":
    main()
