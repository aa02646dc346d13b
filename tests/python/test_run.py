"""`leakguard run` from outside: every way a script may end, next to plain python."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from script_endings import ENDINGS
from watched_world import World

from leakguard.report import Report, load
from leakguard.report_file import report_path

RULE = re.compile(r"^── leakguard, .*", re.MULTILINE | re.DOTALL)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


UNSPOKEN = {"closes its streams", "breaks its path"}


@pytest.mark.parametrize("name", ENDINGS)
def test_it_ends_as_under_plain_python_and_there_is_a_report(name: str, world: World) -> None:
    world.write(ENDINGS[name])
    plain = world.python("script.py")
    watched = world.run("script.py")
    assert watched.returncode == plain.returncode
    assert watched.stdout == plain.stdout
    assert world.report().status == "leak"
    assert world.asked()[-2:] == (["report", "stop"])
    if name not in UNSPOKEN:
        assert RULE.sub("", watched.stderr) == plain.stderr
        assert "\nLEAK  cpu grows\n" in watched.stderr
        assert watched.stderr.endswith("saved      report.json\n")


def test_a_renderer_that_cannot_be_imported_leaves_the_verdict(world: World) -> None:
    world.write(ENDINGS["breaks its path"])
    assert world.run("script.py").stderr == "LEAK  the reason\nnext  the fix\n"


def test_it_watches_without_options_of_its_own(world: World) -> None:
    world.write("")
    world.run("script.py")
    watch, *then = world.asked()
    assert (
        watch
        == "watch () [('detail', 'lines'), ('on_exit', 'never'), ('save', None), ('wait_for_torch', True)]"
    )
    assert then == ["report", "stop"]


def test_a_run_that_was_never_watched_has_a_capture_that_says_so(world: World) -> None:
    world.write("")
    capture = world.folder / "run.lg"
    done = world.python("-m", "leakguard", "run", "-o", "run.lg", "script.py")
    assert "saved      run.lg\n" in done.stderr
    assert load(capture).status == "leak"  # as the fake guard has it
    world.python("-m", "leakguard", "run", "-o", "run.lg", "script.py", LEAKGUARD="0")
    assert load(capture).why == "leakguard is switched off by LEAKGUARD=0"
    capture.unlink()
    capture.write_text("mine")
    done = world.python("-m", "leakguard", "run", "-o", "run.lg", "script.py")
    assert done.returncode == 2
    assert "is no capture: it is not overwritten" in done.stderr


def test_a_forked_child_that_comes_to_its_end_writes_no_report(world: World) -> None:
    world.write(
        "import os, sys\nif os.fork() == 0: sys.exit(5)\nprint(os.waitstatus_to_exitcode(os.wait()[1]))"
    )
    done = world.run("script.py")
    assert (done.returncode, done.stdout) == (0, "5\n")
    assert world.asked().count("report") == 1


def test_a_forked_child_is_terminated_however_early(world: World) -> None:
    world.write(
        """
        import os, signal, sys, time
        codes = set()
        for _ in range(200):
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
            os.kill(child, signal.SIGTERM)
            codes.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print(codes == {-signal.SIGTERM}, signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        """
    )
    assert world.run("script.py").stdout == "True set()\n"
    assert world.asked().count("report") == 1


def test_a_signal_from_outside_ends_it_with_a_report(world: World) -> None:
    world.write("import time; print('ready', flush=True); time.sleep(60)")
    command = [sys.executable, "-m", "leakguard", "run", "--json", "report.json", "script.py"]
    for number in (signal.SIGTERM, signal.SIGINT):
        world.report_file.unlink(missing_ok=True)
        with subprocess.Popen(
            command,
            cwd=world.folder,
            env=world.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(number)
            assert process.wait(timeout=60) == -number
        assert world.report().status == "leak"


def test_out_of_memory_for_real(world: World) -> None:
    world.write(
        """
        import resource
        limit = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + 64 * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

        def train():
            history = []
            while True:
                history.append(bytearray(2**18))

        train()
        """
    )
    done = world.run("script.py")
    assert done.returncode == 1
    assert "MemoryError" in done.stderr
    assert world.report().status == "leak"


def test_a_report_without_memory_is_made_again_without_the_frames(world: World) -> None:
    world.write("def train():\n    raise MemoryError\ntrain()")
    assert world.run("script.py", FAKE_FAULT="memory").returncode == 1
    assert world.asked().count("report") == 2
    assert world.report().status == "leak"


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("watch", "leakguard itself failed: ImportError: built for torch 2.12, found torch 2.13"),
        ("report", "leakguard itself failed: RuntimeError: no heap"),
    ],
)
def test_a_failure_of_ours_is_told_and_does_not_reach_the_script(fault: str, why: str, world: World) -> None:
    world.write("print('out')")
    done = world.run("--fail-on", "warning", "script.py", FAKE_FAULT=fault)
    assert (done.returncode, done.stdout) == (0, "out\n")
    report = world.report()
    assert (report.status, report.why, report.lost.failures) == ("inconclusive", why, 1)
    assert "INCONCLUSIVE" in done.stderr
    assert "Traceback" not in done.stderr


def test_switched_off_it_only_runs_the_script(world: World) -> None:
    world.write("print('out')")
    done = world.run("--fail-on", "leak", "script.py", LEAKGUARD="0")
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "")
    assert world.asked() == []
    assert "LEAKGUARD=0" in world.report().why


@pytest.mark.parametrize(
    ("option", "status", "script", "code"),
    [
        ("leak", "leak", "", 3),
        ("leak", "warning", "", 0),
        ("leak", "clean", "", 0),
        ("leak", "leak", "raise SystemExit(0)", 3),
        ("leak", "leak", "raise SystemExit(9)", 9),
        ("leak", "leak", "raise ValueError", 1),
        ("warning", "leak", "", 3),
        ("warning", "warning", "", 3),
        ("warning", "clean", "", 0),
        ("never", "leak", "", 0),
    ],
)
def test_fail_on(option: str, status: str, script: str, code: int, world: World) -> None:
    world.write(script)
    assert world.run("--fail-on", option, "script.py", FAKE_STATUS=status).returncode == code


def test_a_clean_run_says_so_in_one_line(world: World) -> None:
    world.write("print('out')")
    done = world.run("script.py", FAKE_STATUS="clean")
    assert done.stdout == "out\n"
    assert done.stderr == "leakguard: clean, 40 steps (optimizer); saved report.json\n"


def test_the_file_is_where_it_was_asked_for_though_the_script_moves(world: World) -> None:
    world.write(ENDINGS["leaves its folder"])
    world.run("script.py")
    assert world.report_file.exists()


@pytest.mark.parametrize("file", ["none/report.json", "."])
def test_a_file_that_cannot_be_written_is_told_before_the_script_runs(file: str, world: World) -> None:
    world.write("print('out')")
    done = world.python("-m", "leakguard", "run", "--json", file, "script.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be written" in done.stderr
    assert world.asked() == []


def test_a_file_that_cannot_be_written_in_the_end_does_not_fail_the_script(world: World) -> None:
    world.write("import os, shutil; shutil.rmtree('out')")
    (world.folder / "out").mkdir()
    done = world.python("-m", "leakguard", "run", "--json", "out/report.json", "script.py")
    assert done.returncode == 0
    assert "report.json cannot be written: no such file or directory" in done.stderr
    assert "saved" not in done.stderr


def test_a_report_can_go_to_stdout(world: World) -> None:
    world.write("")
    done = world.python("-m", "leakguard", "run", "--json", "/dev/stdout", "script.py", RANK="1")
    assert Report.from_dict(json.loads(done.stdout)).status == "leak"


def test_each_rank_has_its_own_file(world: World) -> None:
    world.write("")
    assert "leakguard, script.py, rank 1 ─" in world.run("script.py", RANK="1").stderr
    assert load(world.folder / "report.rank1.json").status == "leak"
    assert not world.report_file.exists()


@pytest.mark.parametrize(
    ("pattern", "rank", "name"),
    [
        ("r.json", None, "r.json"),
        ("r.json", "3", "r.rank3.json"),
        ("r", "3", "r.rank3"),
        ("r-{rank}.json", "3", "r-3.json"),
        ("r-{rank}.json", None, "r-0.json"),
        ("{pid}.json", None, "{pid}.json"),
        ("{pid}.json", "3", "{pid}.rank3.json"),
        ("{other}{.json", None, "{other}{.json"),
    ],
)
def test_names_of_files(
    pattern: str, rank: str | None, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    assert report_path(pattern) == tmp_path / name.replace("{pid}", str(os.getpid()))


def test_progress_is_told_when_asked_for(world: World) -> None:
    slow = "import time; time.sleep(1.5)"
    world.write(slow)
    assert "step 7" not in world.run("script.py").stderr
    leader, follower = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "leakguard", "run", "--progress", "script.py"],
        cwd=world.folder,
        env={**world.env, "TERM": "xterm"},
        stderr=follower,
    ) as process:
        assert process.wait(timeout=60) == 0
    os.close(follower)
    assert re.search(rb"\r\x1b\[2Kleakguard: \d+ s, step 7", read_all(leader))


def read_all(descriptor: int) -> bytes:
    pieces = []
    while True:
        try:
            piece = os.read(descriptor, 65536)
        except OSError:  # the other end of a terminal has been closed
            piece = b""
        if not piece:
            os.close(descriptor)
            return b"".join(pieces)
        pieces.append(piece)


def test_a_signal_during_the_report_waits_for_it_and_a_second_one_does_not(world: World) -> None:
    world.write("print('ready', flush=True)")
    with subprocess.Popen(
        [sys.executable, "-m", "leakguard", "run", "--json", "report.json", "script.py"],
        cwd=world.folder,
        env={**world.env, "FAKE_FAULT": "slow"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        lines += [process.stdout.readline() for _ in range(10)]
        process.send_signal(signal.SIGTERM)
        assert lines == ["ready\n", *["reporting\n"] * 11]
        assert process.wait(timeout=60) == -signal.SIGTERM
    assert not world.report_file.exists()


def test_a_run_imports_no_renderer_before_its_end(world: World) -> None:
    world.write("import sys\nprint(sorted({'rich', 'leakguard.render.html'} & set(sys.modules)))")
    assert world.run("script.py").stdout == "[]\n"
