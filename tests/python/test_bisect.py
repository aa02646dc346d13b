"""`leakguard bisect` and `leakguard.bisect` from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from watched_world import World

import leakguard
from leakguard.bisection import Bisection
from leakguard.trials import FreshTrials

PROGRAM = """
import os
import leakguard

on = {{name for name in {parts!r} if leakguard.component(name)}}
os.environ["FAKE_STATUS"] = "leak" if {leaks} else "clean"
{more}
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def write(world: World, parts: str, leaks: str, more: str = "") -> None:
    world.write(PROGRAM.format(parts=parts, leaks=leaks, more=more))


def bisect(world: World, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return world.python("-m", "leakguard", "bisect", "--json", "result.json", *words, **env)


def result_of(world: World) -> Bisection:
    return Bisection.from_dict(json.loads((world.folder / "result.json").read_text()))


def test_a_pair_is_named_with_a_table_as_it_goes(world: World) -> None:
    write(world, "abcd", "{'a', 'd'} <= on", "print('not to be seen')")
    done = bisect(world, "script.py")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[:4] == [
        "bisect of script.py, by halves",
        "trial  result      grows a step  off",
        "    1  leak               512 B  none",
        "    2  clean                  -  all 4",
    ]
    assert "FOUND  a and d leak together, 512 B a step, and none of them without the other" in lines
    assert "why    the reason" in lines
    assert "next   the fix" in lines
    assert "not to be seen" not in done.stdout
    result = result_of(world)
    assert (result.status, result.culprits, result.components) == ("found", (("a", "d"),), tuple("abcd"))
    assert all(trial.steps == 40 for trial in result.trials)


@pytest.mark.parametrize(
    ("parts", "leaks", "code", "says"),
    [
        ("ab", "True", 3, "OUTSIDE  it leaks with all 2 parts off"),
        ("ab", "False", 4, "CLEAN  with every part on there is no leak in 40 steps"),
        ("", "True", 2, "LEAK  it leaks, and it asks for no part"),
    ],
)
def test_what_it_cannot_name_it_says(parts: str, leaks: str, code: int, says: str, world: World) -> None:
    write(world, parts, leaks)
    done = bisect(world, "script.py")
    assert done.returncode == code
    assert says in done.stdout


def test_a_trial_in_which_the_script_fails_is_no_evidence(world: World) -> None:
    write(
        world,
        "ab",
        "'a' in on",
        "if not on: raise KeyError('no parts')\nif 'a' not in on: raise SystemExit(7)",
    )
    done = bisect(world, "script.py")
    assert done.returncode == 1
    assert "UNDECIDED  narrowed down to a, and no further" in done.stdout
    assert "trial 2: it ended with exit code 1: KeyError: 'no parts', after 40" in done.stdout
    assert result_of(world).suspects == ("a",)


def test_a_script_that_fails_for_its_leak_leaks(world: World) -> None:
    write(world, "ab", "'a' in on", "if 'a' in on: raise MemoryError")
    assert bisect(world, "script.py").returncode == 0


def test_a_trial_out_of_time_counts_by_its_report(world: World) -> None:
    write(world, "a", "'a' in on", "import time; time.sleep(60)")
    done = bisect(world, "--timeout", "1", "script.py")
    assert done.returncode == 0, done.stdout
    assert result_of(world).culprits == (("a",),)


def test_a_trial_that_was_cut_too_early_is_no_evidence() -> None:
    trials = FreshTrials(["train.py"], timeout=5)
    trials._all_steps = 100
    report = leakguard.Report(
        status="clean", why="", next="", steps=leakguard.report.Steps(count=49, warmup=2, source="optimizer")
    )
    trial = trials._judge(report, -15, True, "")
    assert trial.outcome == "undecided"
    assert trial.why == "it was ended after 5 s, in step 49, when the first trial had come to step 100"
    trials._all_steps = 98
    assert trials._judge(report, -15, True, "").outcome == "clean"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_process_behind(number: int, world: World) -> None:
    write(world, "a", "True", "import subprocess, time\nsleeper = subprocess.Popen(['sleep', '60'])")
    with (world.folder / "script.py").open("a") as script:
        script.write("print(os.getpid(), sleeper.pid, file=open('pids', 'w'))\ntime.sleep(60)\n")
    command = [sys.executable, "-m", "leakguard", "bisect", "script.py"]
    with subprocess.Popen(
        command, cwd=world.folder, env=world.env, stdout=subprocess.PIPE, text=True
    ) as process:
        pids = world.folder / "pids"
        while not (pids.exists() and pids.read_text().endswith("\n")):
            assert process.poll() is None
        process.send_signal(number)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "stopped in trial 1" in said
    for pid in map(int, pids.read_text().split()):
        assert not is_running(pid)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def test_nothing_to_run(world: World) -> None:
    done = world.python("-m", "leakguard", "bisect")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no SCRIPT to run" in done.stderr
    assert bisect(world, "none.py").returncode == 2
    assert world.python("-m", "leakguard", "bisect", "--json", "no/file", "x.py").returncode == 2


def test_outside_of_a_bisect_every_part_is_on_and_torch_is_not_imported(world: World) -> None:
    world.write("import sys, leakguard; print(leakguard.component('x'), 'torch' in sys.modules)")
    assert world.python("script.py").stdout == "True False\n"
    with pytest.raises(TypeError, match="a component's name is a string, not int"):
        leakguard.component(3)


def test_by_name_each_trial_is_a_process(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write(
        """
        import os, leakguard
        print(os.getpid(), file=open("pids", "a"))
        def make_step():
            def step():
                leaks = leakguard.component("cache") and leakguard.component("log")
                os.environ["FAKE_STATUS"] = "leak" if leaks else "clean"
            return step
        """,
        "parts.py",
    )
    monkeypatch.setenv("PYTHONPATH", world.env["PYTHONPATH"])
    monkeypatch.syspath_prepend(str(world.folder))
    monkeypatch.chdir(world.folder)
    result = leakguard.bisect("parts:make_step", components=["cache", "log", "augment"], steps=12)
    assert result.culprits == (("cache", "log"),)
    assert result.fresh
    pids = (world.folder / "pids").read_text().split()
    assert len(set(pids)) == len(result.trials)
    assert str(os.getpid()) not in pids
    assert "parts" not in sys.modules


def test_a_closure_runs_here_and_the_result_says_so() -> None:
    kept: list[torch.Tensor] = []

    def make_step():
        model = torch.nn.Linear(16, 16)

        def step() -> None:
            x = torch.rand(4, 16)
            if leakguard.component("noise"):
                x = x + torch.rand(4, 16)
            loss = model(x).square().mean()
            if leakguard.component("log"):
                kept.append(loss.detach())
            loss.backward()

        return step

    result = leakguard.bisect(make_step, steps=20)
    assert result.culprits == (("log",),), str(result)
    assert result.components == ("noise", "log")
    assert not result.fresh
    assert "all trials ran in this process" in str(result)
    assert leakguard.component("log")


def test_a_step_that_fails_is_told() -> None:
    def make_step():
        return lambda: 1 // 0

    result = leakguard.bisect(make_step, ["a"])
    assert result.status == "undecided"
    assert "it raised ZeroDivisionError" in str(result)


@pytest.mark.parametrize(
    ("make_step", "options", "message"),
    [
        ("parts", {}, 'write "package.module:name"'),
        ("parts:make", {"steps": 3}, "steps is 3"),
        ("parts:make", {"method": "thirds"}, "method is 'thirds'"),
    ],
)
def test_wrong_arguments(make_step, options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        leakguard.bisect(make_step, ["a"], **options)
