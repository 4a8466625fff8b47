"""`enginewright inspect`."""

from __future__ import annotations

from typing import Annotated

import typer

from enginewright.cli.output import JsonFlag, print_fields, print_json
from enginewright.model.inspection import inspect_checkpoint


def inspect(
    checkpoint: Annotated[str, typer.Argument(help="A .gguf file, a folder or package:path.")],
    as_json: JsonFlag = False,
) -> None:
    """Say what a checkpoint holds: family, sizes, stored types, bytes a step must move."""
    inspection, _, _ = inspect_checkpoint(checkpoint)
    if as_json:
        print_json(inspection.model_dump(mode="json"))
        return
    fields: dict[str, object] = {
        "name": inspection.name,
        "format": inspection.format,
        "family": f"{inspection.family} ({inspection.kind})",
        "parameters": f"{inspection.parameters:,}",
        "tokens": f"{inspection.tokens:,}",
        "golden": "recorded" if inspection.has_golden else "none",
    }
    fields |= inspection.dimensions.model_dump()
    fields |= {dtype: f"{size:,} bytes" for dtype, size in inspection.bytes_by_dtype.items()}
    for step in inspection.steps:
        fields[f"{step.step} at {step.context}"] = f"{step.bytes:,} bytes, {step.flops:,} flops"
    if inspection.unused_tensors:
        fields["unused"] = ", ".join(inspection.unused_tensors)
    print_fields(fields)
