"""Write a target file with sensible values, for `enginewright init`."""

from __future__ import annotations

from pathlib import Path

from enginewright.errors import TargetError

_DECODER = """\
# What Enginewright is asked for. Every key is explained in docs/target.md.
name = "{name}"

[model]
checkpoint = "{checkpoint}"
sha256 = "{sha256}"

[hardware]
device = "cpu"
threads = "auto"

[workload]
objective = "request_ms"           # geometric mean over the scenarios

[[workload.scenario]]
name = "chat"
prompt_tokens = {short}
output_tokens = {output}
streams = 1

[[workload.scenario]]
name = "document"
prompt_tokens = {long}
output_tokens = {output}
streams = 1

[[accept]]
metric = "decode_tokens_per_s"
comparison = ">="
value = 1.5
against = "naive"

[[accept]]
metric = "ttft_ms"
comparison = "<="
value = 0.7
against = "naive"

[numerics]
# Nothing is approximated unless it stands here: "activations_q8", "cache_f16".
allow = []
regret_nats = 0.05
regret_mean_nats = 0.005

[budget]
wall_minutes = 10
trials = 12

# A coder besides the tuner, with a key in OPENAI_API_KEY (docs/target.md has other servers):
# [[agent]]
# kind = "coder"
# model = "…"
"""

_ENCODER = """\
# What Enginewright is asked for. Every key is explained in docs/target.md.
name = "{name}"

[model]
checkpoint = "{checkpoint}"
sha256 = "{sha256}"

[hardware]
device = "cpu"
threads = "auto"

[workload]
objective = "request_ms"           # geometric mean over the scenarios

[[workload.scenario]]
name = "sentence"
prompt_tokens = {short}
requests = 16

[[workload.scenario]]
name = "batch"
prompt_tokens = {long}
batch = 32
requests = 2

[[accept]]
metric = "texts_per_s"
comparison = ">="
value = 1.5
against = "naive"

[numerics]
allow = []
cosine = 0.99999

[budget]
wall_minutes = 10
trials = 12

# A coder besides the tuner, with a key in OPENAI_API_KEY (docs/target.md has other servers):
# [[agent]]
# kind = "coder"
# model = "…"
"""


def write_target(
    path: Path, *, name: str, checkpoint: str, sha256: str, is_encoder: bool, context: int
) -> None:
    """Write a new target file for a checkpoint whose longest sequence is `context` tokens.

    Raises: TargetError if the file exists already or cannot be written.
    """
    template = _ENCODER if is_encoder else _DECODER
    text = template.format(
        name=name,
        checkpoint=checkpoint.replace("\\", "\\\\").replace('"', '\\"'),
        sha256=sha256[:16],
        short=max(1, min(32, context // 4)),
        long=max(1, min(128 if is_encoder else 512, context // 2)),
        output=max(2, min(64, context // 4)),
    )
    try:
        with path.open("x") as file:
            file.write(text)
    except FileExistsError as error:
        raise TargetError(f"{path} exists already", hint="name another file with --out") from error
    except OSError as error:
        raise TargetError(f"cannot write {path}: {error.strerror}") from error
