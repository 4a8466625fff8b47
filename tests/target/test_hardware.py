"""What the machine's record says of where its bandwidth was read."""

from __future__ import annotations

from enginewright.settings import load_settings
from enginewright.target import Machine, probe_machine


def test_the_bandwidth_is_read_over_as_many_bytes_as_asked() -> None:
    machine = probe_machine(load_settings().engine_program, read_bytes=(3 << 20) + 5)
    assert machine.read_buffer_bytes == 3 << 20
    assert Machine.from_json(machine.to_json()).read_buffer_bytes == 3 << 20


def test_a_record_from_before_the_size_was_written_had_the_largest() -> None:
    machine = probe_machine(load_settings().engine_program, read_bytes=1)
    assert machine.read_buffer_bytes == 1 << 20
    held = machine.to_json()
    del held["read_buffer_bytes"]
    assert Machine.from_json(held).read_buffer_bytes == 1 << 30
