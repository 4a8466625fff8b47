"""onnxruntime behind a line protocol: sentence embeddings from an exported all-MiniLM-L6-v2.

Runs in a virtual environment that has `onnxruntime` (see `benchmarks/README.md`). The clock is
around `session.run` and the pooling, in this process: no HTTP, no tokenizer, no padding (every
sequence of a batch has the same length).

    {"sequences": [[ids], ...], "repeats": 5}  ->  {"seconds": [...], "embeddings": [[...], ...]}
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime


def pooled(states: np.ndarray) -> np.ndarray:
    """Mean over positions, then unit length: `[batch, tokens, width]` to `[batch, width]`."""
    mean = states.mean(axis=1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(
        str(arguments.model), options, providers=["CPUExecutionProvider"]
    )
    names = {entry.name for entry in session.get_inputs()}
    print(json.dumps({"ready": True, "version": onnxruntime.__version__}), flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        ids = np.asarray(job["sequences"], dtype=np.int64)
        feeds = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        feeds = {name: value for name, value in feeds.items() if name in names}
        seconds = []
        for _ in range(job["repeats"]):
            start = time.perf_counter()
            embeddings = pooled(session.run(None, feeds)[0])
            seconds.append(time.perf_counter() - start)
        print(json.dumps({"seconds": seconds, "embeddings": embeddings.tolist()}), flush=True)


if __name__ == "__main__":
    main()
