"""Hostile programs in the sandbox. Each is bounded in itself too: 200 processes, 1 GB, 60 s."""

from __future__ import annotations

import ast
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from enginewright.errors import MachineError
from enginewright.evaluation.compile import Job, compile_object
from enginewright.evaluation.kernel_check import python_places
from enginewright.evaluation.sandbox import SYSTEM, Policy, Sandbox, open_sandbox, probe_sandbox
from enginewright.settings import load_settings

PROGRAM = load_settings().sandbox_program
REPORT = probe_sandbox(PROGRAM)

needs_strong = pytest.mark.skipif(
    REPORT.level != "strong", reason=f"no strong sandbox here: {REPORT.layers['own_root']}"
)
pytestmark = needs_strong


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return open_sandbox(PROGRAM, "strong")


def run(
    sandbox: Sandbox, script: str, *, seconds: float = 30.0, stdin: str = "", **policy: object
) -> subprocess.CompletedProcess[str]:
    """The script in the sandbox, with nothing but Python in reach."""
    settings = {"read_only": python_places()[:2], "environment": {"PATH": "/usr/bin"}} | policy
    command = sandbox.command(Policy(**settings), [sys.executable, "-c", script])  # type: ignore[arg-type]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, check=False, input=stdin
    )


def test_an_honest_program_runs_and_ends_as_it_ends(sandbox: Sandbox) -> None:
    done = run(sandbox, "print(input()[::-1]); raise SystemExit(7)", stdin="abc\n")
    assert (done.stdout, done.returncode) == ("cba\n", 7), done.stderr


def test_a_death_by_signal_is_seen_as_one(sandbox: Sandbox) -> None:
    done = run(sandbox, "import os; os.kill(os.getpid(), 11)")
    assert done.returncode == -signal.SIGSEGV, done.stderr


def test_nothing_of_the_machine_is_in_sight_but_what_was_named(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    secret = tmp_path / "answers.json"
    secret.write_text("42")
    script = f"""
import os
here = {str(Path.cwd())!r}
for path in ({str(secret)!r}, "/etc/passwd", "/root", "/home", here, "/proc/1/root/etc"):
    try:
        print("seen", path, os.listdir(path) if os.path.isdir(path) else open(path).read())
    except OSError:
        pass
"""
    done = run(sandbox, script)
    # Folders on the way to what was named may be listed: the interpreter may lie inside this one.
    named = [Path(place) for place in (*SYSTEM, *python_places()[:2])]
    for line in done.stdout.splitlines():
        _, folder, names = line.split(" ", 2)
        ways = [place.relative_to(folder) for place in named if place.is_relative_to(folder)]
        assert set(ast.literal_eval(names)) <= {way.parts[0] for way in ways}, done.stdout
    assert str(secret) not in done.stdout


def test_nothing_can_be_written_but_where_it_may(sandbox: Sandbox, tmp_path: Path) -> None:
    readable, writable = tmp_path / "readable", tmp_path / "writable"
    readable.mkdir()
    readable.chmod(0o777)
    writable.mkdir(mode=0o700)
    tmp_path.chmod(0o755)
    script = f"""
import os
for folder in ({str(readable)!r}, {str(writable)!r}, "/", "/usr/lib", {sys.prefix!r}):
    try:
        open(folder + "/planted", "w").write("x")
        print("wrote", folder)
    except OSError as error:
        pass
"""
    places = (*python_places()[:2], readable)
    done = run(sandbox, script, read_only=places, writable=(writable,))
    assert done.stdout == f"wrote {writable}\n", done.stdout + done.stderr
    assert not (readable / "planted").exists()


def test_there_is_no_network(sandbox: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"""
import socket
for make in (lambda: socket.create_connection(("127.0.0.1", {port}), 2),
             lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
             lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)):
    try:
        make()
        print("a socket")
    except OSError as error:
        print(error.errno)
"""
        done = run(sandbox, script)
    assert done.stdout == "1\n1\n1\n", done.stdout + done.stderr


def test_a_socket_that_it_is_given_can_be_answered_on(sandbox: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        fd = server.fileno()
        script = f"import socket; s = socket.socket(fileno={fd}); c, _ = s.accept(); c.send(b'hi')"
        policy = Policy(read_only=python_places()[:2], keep_fds=(fd,))
        command = sandbox.command(policy, [sys.executable, "-c", script])
        with subprocess.Popen(command, pass_fds=(fd,)) as process:
            with socket.create_connection(server.getsockname(), 10) as client:
                assert client.recv(2) == b"hi"
            assert process.wait(10) == 0


def test_the_judge_can_be_neither_seen_nor_signalled_nor_traced(sandbox: Sandbox) -> None:
    script = f"""
import ctypes, os, signal
print(sorted(int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) > 3))
libc = ctypes.CDLL(None, use_errno=True)
try:
    os.kill({os.getpid()}, signal.SIGTERM)
    print("signalled")
except OSError:
    print("out of reach")
print(libc.ptrace(16, {os.getppid()}, 0, 0), ctypes.get_errno())
print(libc.unshare(0x10000000), ctypes.get_errno())
"""
    done = run(sandbox, script)
    assert done.stdout == "[]\nout of reach\n-1 1\n-1 1\n", done.stdout + done.stderr


def test_nothing_of_our_environment_and_no_file_of_ours_is_open(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "value")
    held = (tmp_path / "held").open("w")
    os.set_inheritable(held.fileno(), True)
    script = """
import os
print(os.environ.get("SECRET_KEY"), os.environ.get("HOME"))
print(sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:4])
"""
    command = sandbox.command(Policy(read_only=python_places()[:2]), [sys.executable, "-c", script])
    done = subprocess.run(command, capture_output=True, text=True, check=False, close_fds=False)
    held.close()
    assert done.stdout == "None None\n[0, 1, 2, 3]\n", done.stdout + done.stderr


def test_memory_is_bounded(sandbox: Sandbox) -> None:
    script = """
held = []
for _ in range(64):
    held.append(bytearray(16 << 20))
print("had a gigabyte")
"""
    done = run(sandbox, script, memory_bytes=256 << 20)
    assert done.returncode not in (0, 125), done.stderr
    assert "had a gigabyte" not in done.stdout


def test_the_disk_cannot_be_filled(sandbox: Sandbox) -> None:
    script = """
import errno
for path, size in (("/tmp/one", 48), ("/tmp/two", 48)):
    try:
        with open(path, "wb") as file:
            for _ in range(size):
                file.write(bytes(1 << 20))
        print("wrote", size)
    except OSError as error:
        print(errno.errorcode[error.errno])
"""
    done = run(sandbox, script)
    assert done.stdout == "wrote 48\nENOSPC\n", done.stdout + done.stderr


def test_a_fork_bomb_stops_at_its_limit_and_leaves_nothing(sandbox: Sandbox) -> None:
    script = """
import os, time
born = 0
for _ in range(200):
    try:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        born += 1
    except OSError:
        break
print(born)
"""
    done = run(sandbox, script, processes=20)
    assert 0 < int(done.stdout) <= 20, done.stdout + done.stderr


@pytest.fixture
def marker(tmp_path: Path) -> Iterator[str]:
    """Something in a command line by which its process can be found."""
    yield f"marker-{os.getpid()}-{time.monotonic_ns()}"


def alive(marker: str) -> list[str]:
    """Processes of this machine whose command line has the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_text(errors="replace")
                state = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            except OSError:
                continue
            if marker in line and state != "Z":
                found.append(line)
    return found


HIDES = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
print("hidden", flush=True)
while True:
    pass
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_its_sandbox(
    sandbox: Sandbox, marker: str, number: signal.Signals
) -> None:
    """It ignores SIGTERM, has left its group, spins and sleeps."""
    policy = Policy(read_only=python_places()[:2])
    command = sandbox.command(policy, [sys.executable, "-c", HIDES, marker])
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == b"hidden\n"
    assert alive(marker)
    process.send_signal(number)
    if number == signal.SIGTERM:
        # Passed on and ignored: whoever waits then kills the sandbox.
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.kill()
    process.wait(10)
    process.stdout.close()
    deadline = time.monotonic() + 2.0
    while alive(marker) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert alive(marker) == []


def test_what_is_left_behind_ends_with_the_command(sandbox: Sandbox, marker: str) -> None:
    script = "import os, sys, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(60)\n"
    command = sandbox.command(
        Policy(read_only=python_places()[:2]), [sys.executable, "-c", script, marker]
    )
    assert subprocess.run(command, timeout=20, check=False).returncode == 0
    assert alive(marker) == []


def test_a_source_may_not_include_what_lies_outside_its_folder(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    for name, body in (
        ("honest", 'pub const TEXT: &str = "fine";'),
        ("peeks", 'pub const TEXT: &str = include_str!("/etc/passwd");'),
    ):
        (folder / f"{name}.rs").write_text(body)
        job = Job(source=folder / f"{name}.rs", constants=())
        failure = compile_object(job, tmp_path / f"{name}.so", sandbox)
        assert (failure is None) == (name == "honest"), failure
    assert (tmp_path / "honest.so").exists()


def test_less_than_asked_is_an_error_and_never_taken_silently(tmp_path: Path) -> None:
    program = tmp_path / "enginewright-sandbox"
    layers = {"own_root": "unshare: not permitted"}
    told = json.dumps({"level": "weak", "layers": layers})
    program.write_text(f"#!/bin/sh\necho '{told}'\n")
    program.chmod(0o755)
    with pytest.raises(MachineError, match="not permitted") as raised:
        open_sandbox(program, "strong")
    assert "--sandbox=weak" in (raised.value.hint or "")
    assert open_sandbox(program, "weak").level == "weak"


def test_the_weak_level_still_bounds_and_has_no_network() -> None:
    weak = open_sandbox(PROGRAM, "weak")
    script = (
        "import socket\ntry:\n    socket.socket()\nexcept OSError as error:\n    print(error.errno)"
    )
    done = run(weak, script)
    assert done.stdout == "1\n", done.stdout + done.stderr


def test_a_policy_that_cannot_be_is_refused_before_anything_runs(sandbox: Sandbox) -> None:
    done = run(sandbox, "print('ran')", read_only=(Path("/nowhere"),), processes=0)
    assert done.returncode == 125
    assert "processes is 0" in done.stderr
    assert "ran" not in done.stdout
