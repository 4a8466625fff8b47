"""Export all-MiniLM-L6-v2 to ONNX for the onnxruntime peer, plain and fused.

Runs in a throwaway environment with torch, transformers, onnx and onnxruntime (see
`benchmarks/README.md`):

    python export_minilm_onnx.py MODEL_FOLDER OUT_FOLDER

Writes `minilm.onnx` (exported as it is) and `minilm.fused.onnx` (onnxruntime's own transformer
optimiser: fused attention, embedding, skip-layer-norm and bias-gelu), so that the peer runs in its
best configuration.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from onnxruntime.transformers import optimizer
from onnxruntime.transformers.fusion_options import FusionOptions
from transformers import AutoModel


class LastHiddenState(torch.nn.Module):
    """The encoder with positional inputs and one output, as the exporter wants it."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        answer = self.model(input_ids=ids, attention_mask=mask, token_type_ids=kinds)
        return answer.last_hidden_state


def main() -> None:
    model_folder, out_folder = Path(sys.argv[1]), Path(sys.argv[2])
    out_folder.mkdir(parents=True, exist_ok=True)
    model = AutoModel.from_pretrained(
        model_folder, dtype=torch.float32, attn_implementation="eager"
    )
    model.eval()
    ids = torch.randint(1000, 2000, (2, 16))
    plain = out_folder / "minilm.onnx"
    names = ["input_ids", "attention_mask", "token_type_ids"]
    torch.onnx.export(
        LastHiddenState(model),
        (ids, torch.ones_like(ids), torch.zeros_like(ids)),
        str(plain),
        input_names=names,
        output_names=["last_hidden_state"],
        dynamic_axes={name: {0: "batch", 1: "tokens"} for name in [*names, "last_hidden_state"]},
        opset_version=17,
        dynamo=False,
    )
    options = FusionOptions("bert")
    fused = optimizer.optimize_model(
        str(plain), "bert", num_heads=12, hidden_size=384, optimization_options=options, opt_level=1
    )
    fused.save_model_to_file(str(out_folder / "minilm.fused.onnx"))
    print(fused.get_fused_operator_statistics())


if __name__ == "__main__":
    main()
