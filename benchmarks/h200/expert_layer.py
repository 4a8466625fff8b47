"""The FP8 expert layer of one row on this machine's GPU: checked against float64, then timed with a
cold cache against its byte floor.

    python3 benchmarks/h200/expert_layer.py [OUT.json]

Shapes of Drama 3 and Qwen3.5-35B-A3B: 256 experts, 8 a row, 2048 -> 512 -> 2048, and a shared one
in bf16. Weights are random: speed does not depend on their values. Forty layers with weights and
experts of their own are one CUDA graph, so that no weight is in the cache when it is asked for.
"""

from __future__ import annotations

import ctypes
import json
import statistics
import sys
import tempfile
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from driver import compile_and_load, graph_times, read_bandwidth

HERE = Path(__file__).resolve().parent
EXPERTS, HIDDEN, INNER, ROUTED, LAYERS = 256, 2048, 512, 8, 40
SHARED_BYTES = 8 * 16 * 512 + 16 * 512 * 2 + HIDDEN * 4 + 16 * 16 * 4 + 4 * 4 * 2 * 4
FLOOR_BYTES = ROUTED * 3 * HIDDEN * INNER + 2 * 3 * HIDDEN * INNER


class Weights(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in (
        "gate", "up", "down", "gate_scale", "up_scale", "down_scale",
        "shared_gate", "shared_up", "shared_down")]  # fmt: skip


def make_layer(generator: torch.Generator) -> dict[str, torch.Tensor]:
    def fp8(*shape: int) -> torch.Tensor:
        values = torch.empty(shape, device="cuda", dtype=torch.float16)
        values.normal_(generator=generator)
        return values.to(torch.float8_e4m3fn)

    def scales(*shape: int) -> torch.Tensor:
        return 0.02 * (0.5 + torch.rand(shape, device="cuda", generator=generator))

    def bf16(*shape: int) -> torch.Tensor:
        values = torch.empty(shape, device="cuda", dtype=torch.bfloat16)
        return values.normal_(std=0.02, generator=generator)

    return {
        "gate": fp8(EXPERTS, INNER, HIDDEN), "up": fp8(EXPERTS, INNER, HIDDEN),
        "down": fp8(EXPERTS, HIDDEN, INNER),
        "gate_scale": scales(EXPERTS, 4, 16), "up_scale": scales(EXPERTS, 4, 16),
        "down_scale": scales(EXPERTS, 16, 4),
        "shared_gate": bf16(INNER, HIDDEN), "shared_up": bf16(INNER, HIDDEN),
        "shared_down": bf16(HIDDEN, INNER),
    }  # fmt: skip


def widened(weights: torch.Tensor, scale: torch.Tensor, expert: int) -> torch.Tensor:
    blocks = scale[expert].double().repeat_interleave(128, 0).repeat_interleave(128, 1)
    return weights[expert].double() * blocks


def meant(
    layer: dict[str, torch.Tensor],
    x: torch.Tensor,
    ids: list[int],
    factors: list[float],
    shared: float,
) -> torch.Tensor:
    """The layer in float64."""
    x = x.double()
    total = torch.zeros(HIDDEN, dtype=torch.float64, device="cuda")
    for expert, factor in zip(ids, factors, strict=True):
        gate = widened(layer["gate"], layer["gate_scale"], expert) @ x
        up = widened(layer["up"], layer["up_scale"], expert) @ x
        down = widened(layer["down"], layer["down_scale"], expert)
        total += factor * (down @ (torch.nn.functional.silu(gate) * up))
    gate, up = layer["shared_gate"].double() @ x, layer["shared_up"].double() @ x
    return total + shared * (layer["shared_down"].double() @ (torch.nn.functional.silu(gate) * up))


def main() -> None:
    generator = torch.Generator("cuda").manual_seed(1)
    with tempfile.TemporaryDirectory() as out:
        kernel = compile_and_load(
            HERE / "expert_layer.cu", "experts_row", Path(out), shared_bytes=SHARED_BYTES
        )
        layers = [make_layer(generator) for _ in range(LAYERS)]
        packed = [
            Weights(*(layer[name].data_ptr() for name, _ in Weights._fields_)) for layer in layers
        ]
        x = torch.randn(HIDDEN, device="cuda", generator=generator)
        ids = torch.stack(
            [torch.randperm(EXPERTS, device="cuda", generator=generator)[:ROUTED] for _ in layers]
        ).to(torch.int32)
        factors = torch.softmax(torch.randn(LAYERS, ROUTED, device="cuda", generator=generator), 1)
        shared = torch.sigmoid(torch.randn(LAYERS, 1, device="cuda", generator=generator))
        h = torch.empty((ROUTED + 1) * INNER, device="cuda")
        counter = torch.zeros(1, dtype=torch.int32, device="cuda")
        y = torch.empty(HIDDEN, device="cuda")

        def launch(number: int) -> None:
            kernel((128, 1), 512, packed[number], x, ids[number], factors[number], shared[number],
                   h, counter, y)  # fmt: skip

        worst = 0.0
        for number in range(4):
            h.fill_(float("nan"))
            y.fill_(float("nan"))
            launch(number)
            expected = meant(layers[number], x, ids[number].tolist(), factors[number].tolist(),
                             shared[number].item())  # fmt: skip
            error = ((y.double() - expected).norm() / expected.norm()).item()
            worst = error if not error <= worst else worst
            first = y.clone()
            launch(number)
            assert torch.equal(first, y), "two runs differ: a race"
        print(f"relative error {worst:.1e} (float64 reference)")
        assert worst < 1e-5, "the kernel computes something else"
        times = graph_times(lambda: [launch(number) for number in range(LAYERS)], LAYERS)
        bandwidth = read_bandwidth()
        row = {
            "work": "FP8 expert layer, one row, cold cache",
            "value": statistics.median(times), "unit": "us", "floor": FLOOR_BYTES / bandwidth * 1e6,
            "must": 15.0, "aim": 10.0, "samples": times, "relative_error": worst,
            "read_bandwidth": bandwidth,
        }  # fmt: skip
        print(
            f"{row['value']:.2f} us a layer (p10 {statistics.quantiles(times, n=10)[0]:.2f}, p90 "
            f"{statistics.quantiles(times, n=10)[-1]:.2f}); floor {row['floor']:.2f} us at "
            f"{bandwidth / 1e12:.2f} TB/s; {FLOOR_BYTES / row['value'] / 1e6:.2f} TB/s reached"
        )
        if len(sys.argv) > 1:
            Path(sys.argv[1]).write_text(json.dumps(row, indent=1) + "\n")


if __name__ == "__main__":
    main()
