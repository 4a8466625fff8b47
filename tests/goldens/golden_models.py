"""The random models that record.py makes: each has what real checkpoints of its kind vary in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import (
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3_5ForCausalLM,
    Qwen3_5MoeForCausalLM,
    Qwen3_5MoeTextConfig,
    Qwen3_5TextConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
)

SIZES = {
    "vocab_size": 160,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.15,
    "attn_implementation": "eager",
}


def logits(model: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """Logits of every position."""
    return model(ids).logits[0]


def first_row(model: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """The [CLS] row, as sentence-transformers' cls pooling has it, normalised."""
    return torch.nn.functional.normalize(model(ids).last_hidden_state[0, 0], dim=0)


def mean_row(model: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """The mean of the rows, not normalised."""
    return model(ids).last_hidden_state[0].mean(dim=0)


@dataclass(frozen=True)
class Tiny:
    """One random model."""

    make: Callable[[], torch.nn.Module]
    answer: Callable[[torch.nn.Module, torch.Tensor], torch.Tensor] = logits
    dtype: torch.dtype = torch.float32
    length: int = 40
    shard_size: str = "1GB"
    extra_files: dict[str, Any] = field(default_factory=dict)
    continuation: int = 0


def llama(**changes: Any) -> torch.nn.Module:
    return LlamaForCausalLM(LlamaConfig(**(SIZES | changes)))


def bert(**changes: Any) -> torch.nn.Module:
    sizes = {key: value for key, value in SIZES.items() if key != "num_key_value_heads"}
    return BertModel(BertConfig(**(sizes | changes)), add_pooling_layer=False)


def modules(pooling: str, *, normalise: bool) -> dict[str, Any]:
    kinds = ["Transformer", "Pooling"] + ["Normalize"] * normalise
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    return {
        "modules.json": [
            {
                "idx": number,
                "name": str(number),
                "path": "" if kind == "Transformer" else f"{number}_{kind}",
                "type": f"sentence_transformers.models.{kind}",
            }
            for number, kind in enumerate(kinds)
        ],
        "1_Pooling/config.json": {
            "word_embedding_dimension": 64,
            **{f"pooling_mode_{mode}": mode == pooling for mode in modes},
        },
        "sentence_bert_config.json": {"max_seq_length": 48, "do_lower_case": False},
    }


LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 32,
}
HYBRID = SIZES | {
    "num_hidden_layers": 4,
    "max_position_embeddings": 128,
    "head_dim": 32,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 24,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_conv_kernel_dim": 4,
}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0}

TINY_MODELS: dict[str, Tiny] = {
    "llama_untied_llama3": Tiny(make=lambda: llama(rope_parameters=LLAMA3)),
    "llama_tied_yarn_sharded_bf16": Tiny(
        make=lambda: llama(
            rope_parameters=YARN, tie_word_embeddings=True, max_position_embeddings=128
        ),
        dtype=torch.bfloat16,
        shard_size="60KB",
    ),
    "llama_biases_linear_f16": Tiny(
        make=lambda: llama(rope_parameters=LINEAR, attention_bias=True, mlp_bias=True),
        dtype=torch.float16,
    ),
    "mistral_window": Tiny(
        make=lambda: MistralForCausalLM(
            MistralConfig(**SIZES, head_dim=32, sliding_window=8, rms_norm_eps=1e-5)
        ),
        dtype=torch.float16,
    ),
    "qwen2_biases": Tiny(
        make=lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=True)),
        dtype=torch.bfloat16,
    ),
    "qwen3_head_norms": Tiny(
        make=lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=24)),
        dtype=torch.bfloat16,
    ),
    "qwen3_tied_window": Tiny(
        make=lambda: Qwen3ForCausalLM(
            Qwen3Config(
                **(SIZES | {"num_hidden_layers": 3}),
                head_dim=32,
                tie_word_embeddings=True,
                use_sliding_window=True,
                sliding_window=8,
                max_window_layers=1,
                rms_norm_eps=1e-5,
            )
        ),
        dtype=torch.float16,
    ),
    "qwen3_5_dense": Tiny(
        make=lambda: Qwen3_5ForCausalLM(Qwen3_5TextConfig(**HYBRID)),
        dtype=torch.bfloat16,
        continuation=16,
    ),
    "qwen3_5_moe": Tiny(
        make=lambda: Qwen3_5MoeForCausalLM(
            Qwen3_5MoeTextConfig(
                **HYBRID,
                num_experts=6,
                num_experts_per_tok=2,
                moe_intermediate_size=32,
                shared_expert_intermediate_size=48,
            )
        ),
        dtype=torch.bfloat16,
        continuation=16,
    ),
    "bert_cls": Tiny(
        make=lambda: bert(hidden_act="gelu_new"),
        answer=first_row,
        extra_files=modules("cls_token", normalise=True),
    ),
    "bert_mean": Tiny(
        make=lambda: bert(type_vocab_size=1),
        answer=mean_row,
        dtype=torch.float16,
        extra_files=modules("mean_tokens", normalise=False),
    ),
}
