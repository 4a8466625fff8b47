"""llama.cpp behind a line protocol, so that a benchmark can interleave it with other engines.

Runs in a virtual environment of its own that has `llama-cpp-python` built for the native processor
(see `benchmarks/README.md`). Calls `llama_decode` directly, as llama.cpp's own `llama-bench` does:
no HTTP, no Python sampler, so the peer is shown at its best. Greedy choice is one NumPy argmax over
the logits in place.

One JSON object a line on stdin, one answer a line on stdout:

    {"prompt": [ids], "generate": 32}  ->  {"prefill_s", "first_token_s", "token_s": [...],
    "tokens": [...]} {"memory": true}                   ->  {"before_kib", "peak_kib"}: this process
    without the model, and its peak

Times are this process's monotonic clock, in seconds. `first_token_s` is prompt to first token
chosen.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import re
import sys
import time
from pathlib import Path

import llama_cpp
import numpy as np


def resident_kib(field: str) -> int:
    """`VmRSS` or `VmHWM` of this process in KiB. Source: proc(5)."""
    text = Path("/proc/self/status").read_text()
    match = re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)
    if match is None:
        raise OSError(f"/proc/self/status has no {field}")
    return int(match.group(1))


class Peer:
    """One llama.cpp context over one GGUF file."""

    def __init__(self, model: Path, threads: int, context: int, flash: str) -> None:
        self.before_kib = resident_kib("VmRSS")
        model_params = llama_cpp.llama_model_default_params()
        self.model = llama_cpp.llama_model_load_from_file(str(model).encode(), model_params)
        if not self.model:
            raise SystemExit(f"llama.cpp cannot load {model}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = context
        params.n_batch = 512
        params.n_ubatch = 512
        params.n_threads = threads
        params.n_threads_batch = threads
        if hasattr(params, "flash_attn_type"):
            params.flash_attn_type = {"auto": -1, "off": 0, "on": 1}[flash]
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        vocabulary = llama_cpp.llama_model_get_vocab(self.model)
        self.size = llama_cpp.llama_vocab_n_tokens(vocabulary)

    def _decode(self, tokens: list[int]) -> int:
        array = (llama_cpp.llama_token * len(tokens))(*tokens)
        batch = llama_cpp.llama_batch_get_one(array, len(tokens))
        status = llama_cpp.llama_decode(self.context, batch)
        if status != 0:
            raise SystemExit(f"llama_decode answered {status}")
        logits = llama_cpp.llama_get_logits_ith(self.context, -1)
        address = ctypes.cast(logits, ctypes.POINTER(ctypes.c_float))
        return int(np.argmax(np.ctypeslib.as_array(address, shape=(self.size,))))

    def run(self, prompt: list[int], generate: int) -> dict[str, object]:
        """Prompt in chunks of `n_batch`, then `generate` tokens greedily."""
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)
        start = time.perf_counter()
        token = 0
        for first in range(0, len(prompt), 512):
            token = self._decode(prompt[first : first + 512])
        first_token_s = time.perf_counter() - start
        tokens, token_s = [token], []
        for _ in range(generate - 1):
            before = time.perf_counter()
            token = self._decode([token])
            token_s.append(time.perf_counter() - before)
            tokens.append(token)
        return {
            "prefill_s": first_token_s,
            "first_token_s": first_token_s,
            "token_s": token_s,
            "tokens": tokens,
        }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--flash", choices=("auto", "on", "off"), default="auto")
    arguments = parser.parse_args()
    peer = Peer(arguments.model, arguments.threads, arguments.context, arguments.flash)
    print(json.dumps({"ready": True, "version": llama_cpp.__version__}), flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        if job.get("memory"):
            answer: dict[str, object] = {
                "before_kib": peer.before_kib,
                "peak_kib": resident_kib("VmHWM"),
            }
        else:
            answer = peer.run(job["prompt"], job["generate"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
