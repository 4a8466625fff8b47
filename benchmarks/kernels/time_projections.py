"""Time the matrix products of one whole step of a model, arms interleaved in one process.

    python benchmarks/kernels/time_projections.py --rows 1 avx512 avx512:PREFETCH=2048 avx2
    python benchmarks/kernels/time_projections.py --model llama-3.2-1b --layers 4 \
        avx512:format=q4_k_m avx512:format=q4_1,head=q8_0 naive:format=q4_k_m

An arm is a tier of the `projections_*` kernels (or `naive`), then parameters of the kernels in
upper case, or `format`, `head` (stored types) and `kernels` (a folder). Printed: milliseconds of a
step in each kind of group (median, least of the repeats) and weight bytes read a second.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from time_projections_models import MODELS, Group, groups, weight_bytes

HERE = Path(__file__).resolve().parent
KERNELS = HERE.parent.parent / "kernels" / "cpu"
FORMATS = ("q4_0", "q4_1", "q5_0", "q8_0", "q4_k", "q6_k", "q4_k_m")
CONTEXT = 2048


@dataclass(frozen=True, kw_only=True)
class Arm:
    """What is timed: kernels, their parameters, and the types of the matrices."""

    text: str
    """As it was asked for."""
    tier: str
    """Ending of the kernels' names, or `naive`."""
    parameters: dict[str, str]
    """Of the kernels."""
    layer_format: str
    """Of the layers' matrices; `q4_k_m` mixes types as llama.cpp does."""
    head_format: str
    """Of the head."""
    kernels: Path
    """Folder of the kernels."""


def read_arm(text: str, layer_format: str) -> Arm:
    """An arm such as `avx512:TILE=4,format=q4_k`."""
    tier, _, rest = text.partition(":")
    given = dict(pair.split("=", 1) for pair in rest.split(",") if pair)
    layer_format = given.get("format", layer_format)
    head = "q6_k" if layer_format in ("q4_k", "q6_k", "q4_k_m") else "q8_0"
    return Arm(
        text=text,
        tier=tier,
        parameters={name: value for name, value in given.items() if name.isupper()},
        layer_format=layer_format,
        head_format=given.get("head", head),
        kernels=Path(given.get("kernels", KERNELS)),
    )


def compile_kernel(source: Path, constants: dict[str, str], folder: Path) -> Path:
    """The object of a kernel for these constants."""
    path = folder / f"{len(list(folder.iterdir()))}.so"
    command = ["rustc", str(source), "-o", str(path), "--edition", "2024", "--crate-type", "cdylib"]
    command += ["-C", "opt-level=3", "-C", "target-cpu=native", "-C", "panic=abort"]
    subprocess.run(command, env=os.environ | constants, check=True)
    return path


def constants_of(group: Group, rows: int) -> dict[str, str]:
    """The shapes and types of a group, as the builder tells them."""
    constants = {"EW_OPS": group.ops, "EW_ROWS": str(rows)}
    matrices = iter(group.matrices)
    for number, op in enumerate(group.ops.split()):
        if op == "linear":
            one = next(matrices)
            constants |= {
                f"EW_OP{number}_IN": str(one.inputs),
                f"EW_OP{number}_OUT": str(one.outputs),
                f"EW_OP{number}_DTYPE": one.dtype,
                f"EW_OP{number}_WIDTH": str(one.inputs),
            }
        if op in ("rope", "kv_write"):
            constants |= {
                f"EW_OP{number}_KV_HEADS": str(group.model.kv_heads),
                f"EW_OP{number}_HEAD_DIM": str(group.model.head_dim),
                f"EW_OP{number}_ROTARY": str(group.model.head_dim),
            }
    return constants


def kernel_name(group: Group, tier: str) -> str:
    """The kernel that serves the types of a group."""
    types = {one.dtype for one in group.matrices}
    family = "k_quants" if types <= {"q4_k", "q6_k"} else types.pop()
    return f"naive_{group.ops}" if tier == "naive" else f"projections_{family}_{tier}"


def write_arm(arm: Arm, model: str, layers: int, rows: int, folder: Path) -> Path:
    """Build the kernels of an arm; the arm's file for the timer."""
    objects = folder / str(len(list(folder.iterdir())))
    objects.mkdir()
    made: dict[tuple[object, ...], Path] = {}
    lines = []
    for group in groups(MODELS[model], layers, arm.layer_format, arm.head_format):
        # The naive kernels serve one op: the products alone, without norm, rotation and the like.
        for part in group.alone() if arm.tier == "naive" else [group]:
            key = (part.ops, part.matrices)
            if key not in made:
                constants = constants_of(part, rows)
                constants |= {f"EW_PARAM_{name}": value for name, value in arm.parameters.items()}
                source = arm.kernels / f"{kernel_name(part, arm.tier)}.rs"
                made[key] = compile_kernel(source, constants, objects)
            slot = CONTEXT * part.model.kv_heads * part.model.head_dim * 4
            sizes = [
                ",".join(str(number) for number in numbers)
                for numbers in (part.inputs, part.outputs, weight_bytes(part))
            ]
            lines.append("\t".join([part.label, str(made[key]), *sizes, str(slot)]))
    path = folder / f"{objects.name}.arm"
    path.write_text("\n".join(lines) + "\n")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("arms", nargs="+", help="TIER or TIER:NAME=VALUE,…")
    parser.add_argument(
        "--model", default="smollm2-135m", choices=sorted(MODELS), help="its shapes"
    )
    parser.add_argument("--layers", type=int, help="fewer than the model has")
    parser.add_argument("--format", default="q4_1", choices=FORMATS, help="of layers' matrices")
    parser.add_argument(
        "--rows", type=int, default=1, help="rows of a step: 1 is decode, hundreds are prefill"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=31, help="steps timed for each arm")
    options = parser.parse_args()
    layers = options.layers or MODELS[options.model].layers
    arms = [read_arm(text, options.format) for text in options.arms]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        timer = folder / "step_timer"
        command = ["rustc", str(HERE / "step_timer.rs"), "-o", str(timer), "--edition", "2024"]
        subprocess.run([*command, "-C", "opt-level=3"], check=True)
        files = [write_arm(arm, options.model, layers, options.rows, folder) for arm in arms]
        counts = [str(number) for number in (options.threads, options.rows, options.repeats)]
        done = subprocess.run([timer, *counts, *files], check=True, capture_output=True, text=True)
    names = {str(path): arm.text for path, arm in zip(files, arms, strict=True)}
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{'arm':44} {'group':8} {'median ms':>10} {'least ms':>10} {'MB':>7} {'GB/s':>6}")
    for line in done.stdout.splitlines():
        name, label, median, least, packed = line.split("\t")
        read = f"{int(packed) / 1e6:7.0f} {int(packed) / int(median):6.1f}"
        times = f"{int(median) / 1e6:10.3f} {int(least) / 1e6:10.3f}"
        print(f"{names[name]:44} {label:8} {times} {read}")


if __name__ == "__main__":
    main()
