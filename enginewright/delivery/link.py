"""Link an engine's kernels, plan and tokenizer with the host libraries into one program.

`rustc` is called directly on a generated main of a screen's length: the host libraries are the very
ones that were measured, and the kernels are compiled again as Rust libraries, from the same sources
with the same constants.
"""

from __future__ import annotations

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from enginewright.errors import EngineError, MachineError
from enginewright.kernel_source import source_files

FLAGS = ("--edition", "2024", "-C", "opt-level=3", "-C", "target-cpu=native")
"""Flags of the kernels and of the program."""
SYMBOLS = ("ew_abi", "ew_phases", "ew_scratch", "ew_packed_bytes", "ew_pack", "ew_run")
"""What every kernel exports; see kernels/cpu/abi.rs."""
_EXPORT = re.compile(
    r"#\[(?:unsafe\()?no_mangle\)?\](?P<between>\s*pub\s+[^{;]*?fn\s+(?P<name>ew_\w+))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedKernel:
    """One kernel of the program."""

    object: str
    """Its name in the plan."""
    kernel: str
    """Name of its source."""
    constants: tuple[tuple[str, str], ...]
    """Environment of `rustc`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """Files that go into the program."""

    graph: Path
    """graph.json."""
    plan: Path
    """plan.json."""
    tokenizer: Path
    """tokenizer.json."""
    manifest: Path
    """manifest.json."""
    weights: tuple[Path, ...] | None
    """The checkpoint's files, or None if they stay outside."""


def link(
    kernels: list[LinkedKernel], sources: Path, inside: Inside, work: Path, program: Path
) -> None:
    """Make `program` in the folder `work` from the kernels' `sources`.

    Raises: EngineError if a kernel or the program does not compile; MachineError without a compiler
    or the host libraries.
    """
    host = _host_libraries()
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        libraries = list(pool.map(lambda kernel: _library(kernel, sources, work), kernels))
    main = work / "main.rs"
    main.write_text(_main(kernels, inside))
    command = ["rustc", str(main), "-o", str(program), "--crate-name", "engine", *FLAGS]
    command += ["--extern", f"enginewright_serve={host / 'libenginewright_serve.rlib'}"]
    command += ["-L", f"dependency={host / 'deps'}", "-C", "strip=debuginfo"]
    for kernel, library in zip(kernels, libraries, strict=True):
        command += ["--extern", f"k_{kernel.object}={library}"]
    _run(command, {}, "the program")


def _host_libraries() -> Path:
    from enginewright.settings import load_settings

    folder = load_settings().rust / "target" / "release"
    if not (folder / "libenginewright_serve.rlib").is_file():
        raise MachineError(
            f"the host libraries are not in {folder}",
            hint="run `make setup`; `ship` links against what it builds",
        )
    return folder


def _library(kernel: LinkedKernel, sources: Path, work: Path) -> Path:
    """The kernel as a Rust library whose exports carry its object's name."""
    folder = work / kernel.object
    folder.mkdir()
    exported: set[str] = set()
    for source in source_files(sources / f"{kernel.kernel}.rs"):

        def rename(match: re.Match[str]) -> str:
            exported.add(match["name"])
            name = f"{match['name']}_{kernel.object}"
            return f'#[unsafe(export_name = "{name}")]{match["between"]}'

        (folder / source.name).write_text(_EXPORT.sub(rename, source.read_text()))
    missing = [name for name in SYMBOLS if name not in exported]
    if missing:
        raise EngineError(
            f"kernel {kernel.kernel} does not export {', '.join(missing)} in a way that links",
            hint='write `#[unsafe(no_mangle)] pub extern "C" fn`, as kernels/cpu/README.md says',
        )
    library = folder / f"libk_{kernel.object}.rlib"
    command = ["rustc", str(folder / f"{kernel.kernel}.rs"), "-o", str(library)]
    command += ["--crate-name", f"k_{kernel.object}", "--crate-type", "rlib", *FLAGS]
    command += ["--cap-lints", "allow"]
    _run(command, dict(kernel.constants), f"kernel {kernel.kernel}")
    return library


def _run(command: list[str], constants: dict[str, str], what: str) -> None:
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("EW_")}
    try:
        done = subprocess.run(
            command, env=inherited | constants, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise MachineError(
            "there is no Rust compiler (rustc) on PATH",
            hint="install Rust from https://rustup.rs, then run again",
        ) from error
    if done.returncode == 0:
        return
    # E0514: metadata of another compiler. E0463: a library of the host is not where it was built.
    if "E0514" in done.stderr or "E0463" in done.stderr:
        raise MachineError(
            "the host libraries are incomplete, or were built by another Rust compiler than the "
            "one on PATH",
            hint="run `make setup` again",
        )
    first = "\n".join(done.stderr.splitlines()[:20])
    raise EngineError(f"{what} does not link:\n{first}", hint="build the engine again")


def _main(kernels: list[LinkedKernel], inside: Inside) -> str:
    lines = [
        "//! Generated by Enginewright: one engine as one program. Made by `enginewright ship`.",
        "",
        "use enginewright_serve::shipped::{Parts, main as run};",
        "use enginewright_serve::{Call, KernelTable};",
        "use std::process::ExitCode;",
        "",
    ]
    lines += [f"extern crate k_{kernel.object};" for kernel in kernels]
    lines += ["", 'unsafe extern "C" {']
    for kernel in kernels:
        name = kernel.object
        lines += [
            f"    safe fn ew_abi_{name}() -> u32;",
            f"    safe fn ew_phases_{name}() -> u32;",
            f"    safe fn ew_scratch_{name}(rows: u32, threads: u32) -> usize;",
            f"    safe fn ew_packed_bytes_{name}(weight: u32) -> usize;",
            f"    fn ew_pack_{name}(weight: u32, stored: *const u8, packed: *mut u8);",
            f"    fn ew_run_{name}(call: *const Call, phase: u32, thread: u32);",
        ]
    lines += ["}", "", f"static KERNELS: [(&str, KernelTable); {len(kernels)}] = ["]
    for kernel in kernels:
        name = kernel.object
        fields = ", ".join(f"{symbol[3:]}: {symbol}_{name}" for symbol in SYMBOLS)
        lines.append(f'    ("{name}", KernelTable {{ {fields} }}),')
    lines += ["];", ""]
    weights = "None"
    if inside.weights is not None:
        lines += _aligned_weights(inside.weights)
        names = ", ".join(f"&WEIGHTS_{number}.0" for number in range(len(inside.weights)))
        lines += [f"static WEIGHTS: [&[u8]; {len(inside.weights)}] = [{names}];", ""]
        weights = "Some(&WEIGHTS)"
    lines += [
        "fn main() -> ExitCode {",
        "    run(&Parts {",
        f"        graph: include_str!({_quoted(inside.graph)}),",
        f"        plan: include_str!({_quoted(inside.plan)}),",
        f"        tokenizer: include_bytes!({_quoted(inside.tokenizer)}),",
        f"        manifest: include_str!({_quoted(inside.manifest)}),",
        "        kernels: &KERNELS,",
        f"        weights: {weights},",
        "    })",
        "}",
        "",
    ]
    return "\n".join(lines)


def _aligned_weights(weights: tuple[Path, ...]) -> list[str]:
    # Kernels read some weights in place, at the alignment that they have in the file.
    lines = ["#[repr(C, align(64))]", "struct Aligned<const N: usize>([u8; N]);", ""]
    for number, path in enumerate(weights):
        size = path.stat().st_size
        lines.append(
            f"static WEIGHTS_{number}: Aligned<{size}> = Aligned(*include_bytes!({_quoted(path)}));"
        )
    return [*lines, ""]


def _quoted(path: Path) -> str:
    text = str(path.resolve()).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
