r"""Record the oracle: what `transformers` answers. Run by hand, in an environment of its own.

    python3.11 -m venv oracle
    oracle/bin/pip install torch==2.13.0 transformers==5.18.0 accelerate==1.15.0 \
        gguf==0.19.0 safetensors==0.8.0
    oracle/bin/python tests/goldens/record.py \
        [smollm2 SMOLLM2.gguf | minilm FOLDER | tiny [NAME ...]]

`smollm2` and `minilm` write to enginewright/model/goldens, which are shipped: `build` checks naive
engines against them. `tiny` writes random models of every family, with their answers, to
tests/goldens/tiny: all of them, or those named. Everything runs in float32 with eager attention on
a CPU. Nothing of enginewright is imported: an oracle must not share our mistakes.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import torch
import transformers
from golden_models import TINY_MODELS
from golden_texts import CHATS, PROMPTS, SENTENCES
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent
SHIPPED = HERE.parent.parent / "enginewright/model/goldens"
FORMAT = "enginewright.golden/1"
TOP = 64
CONTINUATION = 32


def main() -> None:
    """Record what the command line names."""
    torch.set_grad_enabled(False)
    match sys.argv[1:]:
        case ["smollm2", path]:
            record_decoder(Path(path), "smollm2-135m-instruct.q4_1")
        case ["minilm", folder]:
            record_encoder(Path(folder), "all-minilm-l6-v2")
        case ["tiny", *names] if set(names) <= TINY_MODELS.keys():
            for name in names or TINY_MODELS:
                record_tiny(name, TINY_MODELS[name])
        case _:
            sys.exit(__doc__)


def record_decoder(path: Path, name: str) -> None:
    """Top logits of every position, greedy continuations, tokens of texts and chats, of a GGUF
    decoder."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    model.generation_config.eos_token_id = None
    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    texts = dict(PROMPTS)
    chats = {}
    for chat, messages in CHATS.items():
        texts[chat] = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        chats[chat] = messages
    tensors, cases = {}, []
    for number, (case, text) in enumerate(texts.items()):
        ids = tokenizer(text, add_special_tokens=False).input_ids
        logits = model(torch.tensor([ids])).logits[0]
        # Long prompts are thinned out to keep the file small.
        step = 1 if len(ids) <= 64 else 5
        positions = torch.arange(len(ids) - 1, -1, -step).flip(0)
        top = logits[positions].topk(TOP)
        generated = model.generate(
            torch.tensor([ids]), max_new_tokens=CONTINUATION, do_sample=False
        )[0, len(ids) :]
        tensors |= {
            f"{number}.ids": torch.tensor(ids, dtype=torch.int32),
            f"{number}.positions": positions.to(torch.int32),
            f"{number}.top_ids": top.indices.to(torch.int32),
            f"{number}.top_logits": top.values,
            f"{number}.continuation": generated.to(torch.int32),
        }
        cases.append({"name": case, "text": text, "messages": chats.get(case)})
        print(case, len(ids), repr(tokenizer.decode(generated)))
    save(SHIPPED / f"{name}.safetensors", tensors, "decoder", cases, file_sha256(path))


def record_encoder(folder: Path, name: str) -> None:
    """Mean-pooled, normalised embeddings and tokens of a sentence-transformers folder."""
    model = transformers.AutoModel.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tensors, cases = {}, []
    for number, (case, text) in enumerate(SENTENCES.items()):
        ids = tokenizer(text, truncation=False).input_ids
        hidden = model(torch.tensor([ids])).last_hidden_state[0]
        embedding = torch.nn.functional.normalize(hidden.mean(dim=0), dim=0)
        tensors |= {
            f"{number}.ids": torch.tensor(ids, dtype=torch.int32),
            f"{number}.embedding": embedding,
        }
        cases.append({"name": case, "text": text, "messages": None})
        print(case, len(ids))
    digest = file_sha256(folder / "model.safetensors")
    save(SHIPPED / f"{name}.safetensors", tensors, "encoder", cases, digest)


def record_tiny(name: str, tiny) -> None:
    """A random model of one family, its files and its answers to one random sequence."""
    torch.manual_seed(20260101)
    model = tiny.make().eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            # Norm weights start at one and biases at zero, where mistakes do not show.
            parameter.data += 0.3 * torch.randn_like(parameter)
    model.to(tiny.dtype)
    folder = HERE / "tiny" / name
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder, max_shard_size=tiny.shard_size)
    (folder / "generation_config.json").unlink(missing_ok=True)
    for path, content in tiny.extra_files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(json.dumps(content, indent=1) + "\n")
    # Loaded again: casting a model also casts its rotary frequencies.
    model = type(model).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    model.eval()
    ids = torch.randint(0, model.config.vocab_size, (tiny.length,))
    answer = tiny.answer(model, ids[None])
    tensors = {"ids": ids.to(torch.int32), "answer": answer.contiguous()}
    if tiny.continuation:
        model.generation_config.eos_token_id = None
        generated = model.generate(ids[None], max_new_tokens=tiny.continuation, do_sample=False)
        tensors["continuation"] = generated[0, len(ids) :].to(torch.int32)
    save_file(tensors, folder / "expected.safetensors", metadata={"source": source()})
    print(name, tuple(answer.shape), float(answer.abs().max()))


def save(path: Path, tensors: dict, kind: str, cases: list, digest: str) -> None:
    """One golden file: tensors by case, the rest as metadata."""
    golden = {
        "format": FORMAT,
        "kind": kind,
        "checkpoint_sha256": digest,
        "source": source(),
        "cases": cases,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"golden": json.dumps(golden, ensure_ascii=False)}
    save_file({key: value.contiguous() for key, value in tensors.items()}, path, metadata=metadata)
    print(path, path.stat().st_size)


def source() -> str:
    """What made the figures."""
    return (
        f"transformers {transformers.__version__}, torch {torch.__version__}, float32, eager, CPU"
    )


def file_sha256(path: Path) -> str:
    """Digest of a file."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


if __name__ == "__main__":
    main()
