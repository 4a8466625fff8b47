"""Time the matrix products of one whole step of SmolLM2-135M, arms interleaved in one process.

    python benchmarks/kernels/time_projections.py --rows 1 avx512 avx512:PREFETCH=2048 avx2

An arm is a tier of the `projections_*` kernels, then parameters. Printed: milliseconds of a step in
each kind of group (median, least of the repeats) and weight bytes read a second.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
KERNELS = HERE.parent.parent / "kernels" / "cpu"
HIDDEN, FEED_FORWARD, HEADS, KV_HEADS, HEAD_DIM, LAYERS, VOCABULARY = 576, 1536, 9, 3, 64, 30, 49152
BLOCK_BYTES = {"q4_0": 18, "q4_1": 20, "q5_0": 22, "q8_0": 34}
SLOT_BYTES = 2048 * KV_HEADS * HEAD_DIM * 4

Group = tuple[str, str, str, list[int], list[int], list[tuple[int, int]]]
"""Label, format, ops, input widths, output widths, (inputs, outputs) of each matrix."""


def groups(layer_format: str) -> list[Group]:
    """The groups of one layer, then the head."""
    kv_width = KV_HEADS * HEAD_DIM
    square, gate = (HIDDEN, HIDDEN), (HIDDEN, FEED_FORWARD)
    qkv = [square, (HIDDEN, kv_width), (HIDDEN, kv_width)]
    rope = "rms_norm linear linear linear rope rope kv_write"
    return [
        ("qkv", layer_format, rope, [HIDDEN], [HIDDEN], qkv),
        ("o", layer_format, "linear add", [HIDDEN, HIDDEN], [HIDDEN], [square]),
        (
            "gate_up",
            layer_format,
            "rms_norm linear linear silu_mul",
            [HIDDEN],
            [FEED_FORWARD],
            [gate] * 2,
        ),
        (
            "down",
            layer_format,
            "linear add",
            [FEED_FORWARD, HIDDEN],
            [HIDDEN],
            [(FEED_FORWARD, HIDDEN)],
        ),
        (
            "head",
            "q8_0",
            "select_rows rms_norm linear",
            [HIDDEN],
            [VOCABULARY],
            [(HIDDEN, VOCABULARY)],
        ),
    ]


def build(group: Group, tier: str, parameters: dict[str, str], rows: int, folder: Path) -> str:
    """Compile a group's kernel; the path of the object."""
    _, weight_format, ops, _, _, matrices = group
    constants = {"EW_OPS": ops, "EW_ROWS": str(rows)}
    constants |= {f"EW_PARAM_{name}": value for name, value in parameters.items()}
    shapes = iter(matrices)
    for number, op in enumerate(ops.split()):
        if op == "linear":
            inputs, outputs = next(shapes)
            constants |= {f"EW_OP{number}_IN": str(inputs), f"EW_OP{number}_OUT": str(outputs)}
    source = KERNELS / f"projections_{weight_format}_{tier}.rs"
    path = folder / f"{group[0]}.so"
    command = ["rustc", str(source), "-o", str(path), "--edition", "2024", "--crate-type", "cdylib"]
    command += ["-C", "opt-level=3", "-C", "target-cpu=native", "-C", "panic=abort"]
    subprocess.run(command, env=os.environ | constants, check=True)
    return str(path)


def weight_bytes(group: Group) -> list[int]:
    """Stored bytes of the weights of a group, in the order of its ops."""
    _, weight_format, ops, _, _, matrices = group
    shapes, sizes = iter(matrices), []
    for op in ops.split():
        if op == "rms_norm":
            sizes.append(4 * HIDDEN)
        if op == "linear":
            inputs, outputs = next(shapes)
            sizes.append(inputs // 32 * BLOCK_BYTES[weight_format] * outputs)
        if op == "rope":
            sizes.append(4 * HEAD_DIM // 2)
    return sizes


def write_arm(text: str, layer_format: str, rows: int, folder: Path) -> Path:
    """Build the kernels of an arm such as `avx512:TILE=4`; the arm's file for the timer."""
    tier, _, rest = text.partition(":")
    parameters = dict(pair.split("=", 1) for pair in rest.split(",") if pair)
    objects = folder / text
    objects.mkdir(parents=True)
    lines = []
    for group in groups(layer_format):
        label, _, _, inputs, outputs, _ = group
        path = build(group, tier, parameters, rows, objects)
        sizes = [
            ",".join(str(number) for number in numbers)
            for numbers in (inputs, outputs, weight_bytes(group))
        ]
        lines.append("\t".join([label, path, *sizes, str(SLOT_BYTES)]))
    arm = folder / f"{text}.arm"
    arm.write_text("\n".join(lines[:-1] * LAYERS + lines[-1:]) + "\n")
    return arm


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("arms", nargs="+", help="TIER or TIER:NAME=VALUE,…")
    parser.add_argument(
        "--format", default="q4_1", choices=sorted(BLOCK_BYTES), help="of the layers' matrices"
    )
    parser.add_argument(
        "--rows", type=int, default=1, help="rows of a step: 1 is decode, hundreds are prefill"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=31, help="steps timed for each arm")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        timer = folder / "step_timer"
        command = [
            "rustc",
            str(HERE / "step_timer.rs"),
            "-o",
            str(timer),
            "--edition",
            "2024",
            "-C",
            "opt-level=3",
        ]
        subprocess.run(command, check=True)
        arms = [write_arm(text, options.format, options.rows, folder) for text in options.arms]
        counts = [str(number) for number in (options.threads, options.rows, options.repeats)]
        done = subprocess.run([timer, *counts, *arms], check=True, capture_output=True, text=True)
    print(f"{'arm':40} {'group':8} {'median ms':>10} {'least ms':>10} {'GB/s':>8}")
    for line in done.stdout.splitlines():
        name, label, median, least, packed = line.split("\t")
        speed = f"{int(packed) / int(median):8.1f}" if label == "all" else ""
        times = f"{int(median) / 1e6:10.3f} {int(least) / 1e6:10.3f}"
        print(f"{Path(name).stem:40} {label:8} {times} {speed}")


if __name__ == "__main__":
    main()
