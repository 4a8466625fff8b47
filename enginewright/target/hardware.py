"""This machine, as the host program probes it: features, cores, caches, bandwidth, peak."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enginewright.errors import MachineError

MOST_READ_BYTES = 1 << 30
"""Largest buffer that the bandwidth is measured over: no cache holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a figure was measured on."""

    processor: str
    """Name of the processor."""
    features: frozenset[str]
    """Processor features, as in /proc/cpuinfo."""
    cores: int
    """Cores that this process may use."""
    last_level_cache_bytes: int
    """Size of the largest cache; 0 if unknown."""
    read_bandwidth: dict[int, float]
    """Best measured read bandwidth in bytes per second, by threads."""
    read_buffer_bytes: int
    """Size of the buffer it was measured over, again and again: one that fits the last cache gives
    the bandwidth of that cache."""
    peak_flops: dict[int, float]
    """Best measured float32 multiply-add rate in operations per second, by threads."""
    kernel: str
    """Operating system and version."""
    compiler: str
    """`rustc -V`, or empty without one."""
    probe: dict[str, Any]
    """All that the probe said."""

    def read_bytes_per_second(self, threads: int) -> float:
        """Read bandwidth of `threads` threads: of the nearest measured count at or below."""
        return _at(self.read_bandwidth, threads)

    def peak_flops_per_second(self, threads: int) -> float:
        """Peak float32 rate of `threads` threads."""
        return _at(self.peak_flops, threads)

    @property
    def digest(self) -> str:
        """Digest of what evidence depends on: not of the measured rates, which vary."""
        stable = {
            "processor": self.processor,
            "features": sorted(self.features),
            "cores": self.cores,
            "kernel": self.kernel,
            "compiler": self.compiler,
        }
        return hashlib.sha256(json.dumps(stable, sort_keys=True).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """As written to machine.json."""
        return {
            "processor": self.processor,
            "features": sorted(self.features),
            "cores": self.cores,
            "last_level_cache_bytes": self.last_level_cache_bytes,
            "read_bandwidth": {str(key): value for key, value in self.read_bandwidth.items()},
            "read_buffer_bytes": self.read_buffer_bytes,
            "peak_flops": {str(key): value for key, value in self.peak_flops.items()},
            "kernel": self.kernel,
            "compiler": self.compiler,
            "digest": self.digest,
        }

    @classmethod
    def from_json(cls, held: dict[str, Any]) -> Machine:
        """The machine that `to_json` wrote; what the probe said besides is not in it.

        Raises: KeyError, TypeError, ValueError if a field is missing or of the wrong kind.
        """
        return cls(
            processor=held["processor"],
            features=frozenset(held["features"]),
            cores=int(held["cores"]),
            last_level_cache_bytes=int(held["last_level_cache_bytes"]),
            read_bandwidth={int(key): float(rate) for key, rate in held["read_bandwidth"].items()},
            # Records from before this field was written used this size, whatever the model.
            read_buffer_bytes=int(held.get("read_buffer_bytes", MOST_READ_BYTES)),
            peak_flops={int(key): float(rate) for key, rate in held["peak_flops"].items()},
            kernel=held["kernel"],
            compiler=held["compiler"],
            probe={},
        )


def probe_machine(program: Path, *, read_bytes: int = MOST_READ_BYTES) -> Machine:
    """Run the host program's probe, with the bandwidth of reading `read_bytes` over and over.

    Raises: MachineError if the program is missing or fails.
    """
    mebibytes = min(max(read_bytes, 1 << 20), MOST_READ_BYTES) >> 20
    try:
        done = subprocess.run(
            [str(program), "probe", "--buffer-mib", str(mebibytes)],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    except OSError as error:
        raise MachineError(
            f"cannot run the host program {program}: {error.strerror}", hint="run `make setup`"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise MachineError(f"{program} probe did not end within {error.timeout:.0f} s") from error
    if done.returncode != 0:
        raise MachineError(f"{program} probe failed: {done.stderr.strip()}")
    probe = json.loads(done.stdout)
    return Machine(
        processor=probe.get("processor") or platform.processor() or platform.machine(),
        features=frozenset(probe["features"]),
        cores=probe["cores"],
        last_level_cache_bytes=max((cache["bytes"] for cache in probe["caches"]), default=0),
        read_bandwidth=_best(probe["read_bandwidth"], "bytes_per_second"),
        read_buffer_bytes=probe["read_buffer_bytes"],
        peak_flops=_best(probe["peak_f32"], "flops_per_second"),
        kernel=f"{platform.system()} {platform.release()}",
        compiler=_compiler(),
        probe=probe,
    )


def _best(rates: list[dict[str, Any]], name: str) -> dict[int, float]:
    return {int(rate["threads"]): float(rate["best"]) for rate in rates}


def _at(rates: dict[int, float], threads: int) -> float:
    counts = [count for count in rates if count <= threads] or [min(rates)]
    return max(rates[count] for count in counts)


def _compiler() -> str:
    try:
        done = subprocess.run(["rustc", "-V"], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()
