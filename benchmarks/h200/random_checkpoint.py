"""A checkpoint with random weights at the shapes of a config, in the published layout.

    python3 benchmarks/h200/random_checkpoint.py CONFIG.json FOLDER [--holes]

Needs nothing but NumPy, so that gigabytes are made where they are used. `--holes` writes the same
file without its bytes (zeros that take no room): enough to make a graph and an engine from.
Families: llama-like decoders (`llama`, `mistral`, `qwen2`, `qwen3`), bf16.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np

CHUNK = 1 << 24


def tensors(config: dict) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor, in the order of the file."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    head = config.get("head_dim", hidden // config["num_attention_heads"])
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    vocabulary = config["vocab_size"]
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocabulary, hidden)}
    for number in range(config["num_hidden_layers"]):
        at = f"model.layers.{number}."
        found |= {
            f"{at}input_layernorm.weight": (hidden,),
            f"{at}self_attn.q_proj.weight": (queries, hidden),
            f"{at}self_attn.k_proj.weight": (keys, hidden),
            f"{at}self_attn.v_proj.weight": (keys, hidden),
            f"{at}self_attn.o_proj.weight": (hidden, queries),
            **_norms_of_heads(config, at, head),
            f"{at}post_attention_layernorm.weight": (hidden,),
            f"{at}mlp.gate_proj.weight": (inner, hidden),
            f"{at}mlp.up_proj.weight": (inner, hidden),
            f"{at}mlp.down_proj.weight": (hidden, inner),
        }
    found["model.norm.weight"] = (hidden,)
    if not config.get("tie_word_embeddings", False):
        found["lm_head.weight"] = (vocabulary, hidden)
    return found


def _norms_of_heads(config: dict, at: str, head: int) -> dict[str, tuple[int, ...]]:
    if config["model_type"] != "qwen3":
        return {}
    return {f"{at}self_attn.{name}_norm.weight": (head,) for name in "qk"}


def write(config: dict, path: Path, *, holes: bool) -> None:
    header, end = {}, 0
    for name, shape in tensors(config).items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    random = np.random.default_rng(1)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        if holes:
            file.truncate(8 + len(text) + end)
            return
        for shape in tensors(config).values():
            left = int(np.prod(shape))
            while left:
                count = min(left, CHUNK)
                values = random.standard_normal(count, dtype=np.float32) * np.float32(0.02)
                if len(shape) == 1:
                    values += 1
                file.write((values.view(np.uint32) >> 16).astype(np.uint16).tobytes())
                left -= count


def main() -> None:
    config, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    if config.resolve() != (folder / "config.json").resolve():
        shutil.copyfile(config, folder / "config.json")
    write(json.loads(config.read_text()), folder / "model.safetensors", holes="--holes" in sys.argv)


if __name__ == "__main__":
    main()
