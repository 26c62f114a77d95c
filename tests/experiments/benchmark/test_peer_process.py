"""A peer runs in its own process: its crash is a row of the table, and it ends with the benchmark."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keras_nplm.experiments.benchmark import contenders
from keras_nplm.experiments.benchmark.contenders import Contender, measure_group, time_requests
from keras_nplm.experiments.benchmark.peer_process import PeerProcess
from keras_nplm.experiments.tables import format_benchmark

STUB = """
import os, signal, sys, time
from pathlib import Path
from keras_nplm.experiments.benchmark.contenders import Contender, time_requests

def build_noisy(ngrams):
    print("a library greets")
    def work():
        print("and reports progress")
        time.sleep(0.05)
        return sum(1 for _ in range(ngrams))
    return Contender("noisy", work)

def build_requests():
    return time_requests("requests", lambda: None, batch=500)

def build_crash(rounds):
    def work():
        rounds.pop() if rounds else os.kill(os.getpid(), signal.SIGSEGV)
        return 1
    return Contender("crash", work)

def build_exit():
    print("terminate called without an active exception", file=sys.stderr)
    sys.stderr.flush()
    os._exit(3)

def build_hang(pid_file):
    Path(pid_file).write_text(str(os.getpid()) + " ")
    time.sleep(600)
"""


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """The name of a module of peers, which child processes can import."""
    monkeypatch.setattr(contenders.gc, "collect", lambda: 0)
    (tmp_path / "stub_peers.py").write_text(STUB)
    root = Path(contenders.__file__).parents[3]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(root)]))
    return "stub_peers"


def test_a_peer_is_timed_by_its_own_clock_and_compared(stub, capfd):
    peer = PeerProcess("noisy", f"{stub}:build_noisy", {"ngrams": 1_000_000}, peer=True)
    ours, theirs = measure_group([Contender("ours", lambda: 1), peer], rounds=2)
    assert 2e6 < theirs["rate"] < 1e9  # its 0.1 seconds of sleep are not counted, its loop is
    assert ours["ratio_to"]["noisy"][0] > 0 and "ratio_to" not in theirs
    assert "greets" not in capfd.readouterr().out


def test_requests_of_a_peer_are_timed_there(stub, monkeypatch):
    (row,) = measure_group([PeerProcess("requests", f"{stub}:build_requests", {})], rounds=1)
    assert len(row["milliseconds"]) == 2 and 0 < row["milliseconds"][0] < 10
    monkeypatch.setattr(contenders, "CONTEXTS_PER_ROUND", 1)
    assert time_requests("ours", lambda: None).work() == 20


def test_a_crash_is_a_row_and_the_others_go_on(stub):
    crashes = [PeerProcess(f"after {n}", f"{stub}:build_crash", {"rounds": [1] * n}, peer=True) for n in (0, 2)]
    peer = PeerProcess("noisy", f"{stub}:build_noisy", {"ngrams": 10}, peer=True)
    ours, *crashed, theirs = rows = measure_group([Contender("ours", lambda: 1), *crashes, peer], rounds=2)
    assert [row["failure"] for row in crashed] == ["killed by SIGSEGV"] * 2
    assert [*ours["ratio_to"]] == ["noisy"] and theirs["rate"] > 0
    table = format_benchmark({"rows": [{"benchmark": "training"} | row for row in rows]})
    assert "| training | after 2 | failed: killed by SIGSEGV |  |  |  |  |" in table


def test_other_failures_are_rows_that_say_why(stub):
    group = [
        PeerProcess("absent", "absent_library:build", {}, peer=True),
        PeerProcess("exit", f"{stub}:build_exit", {}, peer=True),
        PeerProcess("arguments", f"{stub}:build_crash", {"rounds": None, "turns": 1}, peer=True),
    ]
    absent, ended, arguments = (row["failure"] for row in measure_group(group, rounds=1))
    assert absent == "ModuleNotFoundError: No module named 'absent_library'"
    assert ended == "exit status 3: terminate called without an active exception"
    assert arguments.startswith("TypeError: ") and "turns" in arguments


def test_a_waiting_peer_uses_no_cpu_and_is_closed(stub):
    peer = PeerProcess("noisy", f"{stub}:build_noisy", {"ngrams": 10})
    peer.run_round()
    process = Path("/proc") / str(peer._child.pid)
    if not process.exists():
        pytest.skip("this system has no /proc")
    before = process.joinpath("stat").read_text().split()[13:15]
    time.sleep(0.3)
    assert process.joinpath("stat").read_text().split()[13:15] == before
    peer.close()
    assert not process.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_hanging_peer_ends_with_the_benchmark(stub, tmp_path, number):
    if sys.platform != "linux" and number != signal.SIGINT:
        pytest.skip("only Linux tells a process that its parent ended")
    pid_file = tmp_path / "pid"
    program = (
        "import signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs ignore SIGINT
        "from keras_nplm.experiments.benchmark.contenders import measure_group\n"
        "from keras_nplm.experiments.benchmark.peer_process import PeerProcess\n"
        f"peer = PeerProcess('hang', '{stub}:build_hang', {{'pid_file': {str(pid_file)!r}}})\n"
        "measure_group([peer], rounds=1)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL) as benchmark:
        _wait_for(lambda: pid_file.exists() and pid_file.read_text().endswith(" "))
        benchmark.send_signal(number)  # to the parent alone
        assert benchmark.wait(10) != 0
    pid = int(pid_file.read_text())
    _wait_for(lambda: not _is_running(pid))


def _wait_for(condition) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().split()[2] == "Z")  # a container's first process may not collect it
