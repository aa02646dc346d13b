"""`leakguard run` on real training scripts, in processes of their own: the report is right whatever ends the
script."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from real_world import CLEAN, LEAKING, World, line_of  # noqa: E402

NUMBER = (int, float)
MAYBE_TEXT = (str, type(None))
MAYBE_NUMBER = (int, float, type(None))

# The report's contract: each field and the types that its value may have.
REPORT = {
    "schema": int,
    "leakguard": str,
    "torch": str,
    "python": str,
    "status": str,
    "why": str,
    "next": str,
    "steps": dict,
    "devices": list,
    "findings": list,
    "advice": list,
    "overhead": dict,
    "lost": dict,
}
STEPS = {"count": int, "warmup": int, "source": MAYBE_TEXT}
DEVICE = {
    "device": str,
    "allocated_bytes": MAYBE_NUMBER,
    "reserved_bytes": MAYBE_NUMBER,
    "peak_bytes": MAYBE_NUMBER,
    "bytes_per_step": MAYBE_NUMBER,
    "fragmentation": MAYBE_NUMBER,
    "outside_allocator_bytes": MAYBE_NUMBER,
}
FINDING = {
    "fingerprint": str,
    "verdict": str,
    "cause": str,
    "title": str,
    "why": str,
    "fix": MAYBE_TEXT,
    "device": str,
    "bytes": int,
    "blocks": int,
    "bytes_per_step": NUMBER,
    "blocks_per_step": NUMBER,
    "first_step": int,
    "last_step": int,
    "category": str,
    "allocated_at": dict,
    "root": str,
    "retained_by": list,
    "retained_bytes": int,
    "example": (dict, type(None)),
}
PLACE = {
    "file": MAYBE_TEXT,
    "line": (int, type(None)),
    "function": MAYBE_TEXT,
    "expression": MAYBE_TEXT,
    "op": MAYBE_TEXT,
    "module": MAYBE_TEXT,
    "phase": str,
    "via": MAYBE_TEXT,
}
LINK = {"edge": str, "name": MAYBE_TEXT, "type": MAYBE_TEXT, "file": MAYBE_TEXT, "line": (int, type(None))}
OVERHEAD = {"seconds": NUMBER, "fraction": NUMBER, "host_bytes": int}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def check_fields(value: dict[str, Any], fields: dict[str, Any]) -> None:
    for name, types in fields.items():
        assert name in value
        assert isinstance(value[name], types), (name, value[name])


def check_contract(report: dict[str, Any]) -> None:
    check_fields(report, REPORT)
    assert report["schema"] == 1
    assert report["status"] in ("leak", "warning", "clean", "inconclusive")
    check_fields(report["steps"], STEPS)
    assert report["steps"]["source"] in ("explicit", "optimizer", "backward", "forward", None)
    check_fields(report["overhead"], OVERHEAD)
    assert all(isinstance(count, int) for count in report["lost"].values())
    for device in report["devices"]:
        check_fields(device, DEVICE)
    for finding in report["findings"]:
        check_fields(finding, FINDING)
        assert finding["verdict"] in ("growing", "waiting-for-gc", "bounded", "by-design", "no-owner")
        check_fields(finding["allocated_at"], PLACE)
        for link in finding["retained_by"]:
            check_fields(link, LINK)
        if finding["example"] is not None:
            check_fields(finding["example"], {"shape": list, "dtype": str, "requires_grad": bool})
    rates = [finding["bytes_per_step"] for finding in report["findings"]]
    assert rates == sorted(rates, reverse=True)


def check_leak(report: dict[str, Any], script: Path, steps: int) -> None:
    check_contract(report)
    assert report["status"] == "leak", report["why"]
    assert report["steps"] == {"count": steps, "warmup": 4, "source": "optimizer"}
    finding = report["findings"][0]
    assert finding["allocated_at"]["file"] == str(script)
    assert finding["allocated_at"]["line"] == line_of(script)
    assert finding["allocated_at"]["expression"] == "torch.zeros(64)"
    assert finding["allocated_at"]["function"] == "main"
    assert finding["bytes_per_step"] == pytest.approx(256)
    assert "history" in [link["name"] for link in finding["retained_by"]]
    assert report["lost"] == {"events": 0, "unknown_births": 0, "uncovered_devices": 0, "failures": 0}


def test_a_leak_is_reported_and_fails_the_run_when_asked(world: World) -> None:
    script = world.write(LEAKING, "import sys\nmain(int(sys.argv[1]))\nprint('trained', __name__)\n")
    done = world.run("--fail-on", "leak", "script.py", "30")
    assert done.returncode == 3, done.stderr
    assert done.stdout == "trained __main__\n"
    assert re.search(r"LEAK +cpu grows 256 B a step", done.stderr)
    assert f"script.py:{line_of(script)}" in done.stderr
    check_leak(world.report(), script, 30)


def test_a_clean_run_is_quiet_about_leaks(world: World) -> None:
    world.write(CLEAN, "main(30)\n")
    done = world.run("--fail-on", "warning", "script.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "LEAK" not in done.stderr
    report = world.report()
    check_contract(report)
    assert report["status"] == "clean"
    assert report["findings"] == []
    assert [device["device"] for device in report["devices"]] == ["cpu"]


ENDINGS = {
    "raises": ("raise LookupError('no more data')", 1),
    "is interrupted": ("import os, signal\nos.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT),
    "is terminated": ("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
    "exits": ("import sys\nsys.exit(7)", 7),
    "runs out of memory": ("torch.empty(2**55)", 1),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_report_when_the_script(world: World, ending: str) -> None:
    statements, code = ENDINGS[ending]
    script = world.write(LEAKING, "main(24)\n", statements, "\nprint('not reached')\n")
    done = world.run("script.py")
    assert done.returncode == code, done.stderr
    assert "not reached" not in done.stdout
    assert "leakguard/cli" not in done.stderr
    check_leak(world.report(), script, 24)
    if ending == "raises":
        assert "LookupError: no more data" in done.stderr
    if ending == "runs out of memory":
        assert "can't allocate memory" in done.stderr


def test_a_signal_in_the_middle_of_the_loop(world: World) -> None:
    loop = LEAKING.replace("optimizer.zero_grad()", "optimizer.zero_grad(); stop(len(history))")
    script = world.write(
        "import os, signal\ndef stop(count):\n    if count == 25: os.kill(os.getpid(), signal.SIGTERM)\n",
        loop,
        "main(1000)\n",
    )
    done = world.run("script.py")
    assert done.returncode == -signal.SIGTERM
    check_leak(world.report(), script, 25)


def test_a_module_of_a_package(world: World) -> None:
    world.write("", name="project/__init__.py")
    script = world.write(LEAKING, "import sys\nmain(int(sys.argv[1]))\n", name="project/train.py")
    done = world.run("-m", "project.train", "26")
    assert done.returncode == 0, done.stderr
    check_leak(world.report(), script, 26)


def test_a_script_that_never_imports_torch(world: World) -> None:
    world.write("import sys\nprint('torch' in sys.modules, 'leakguard._core' in sys.modules)\n")
    done = world.run("script.py")
    assert (done.returncode, done.stdout) == (0, "False False\n")
    report = world.report()
    check_contract(report)
    assert report["status"] == "inconclusive"
    assert report["why"] == "the program never imported torch"
    assert report["torch"] == ""


def test_a_script_that_looks_for_torch_before_it_imports_it(world: World) -> None:
    script = world.write(
        "import importlib.util\nassert importlib.util.find_spec('torch') is not None\n",
        LEAKING,
        "assert torch.__spec__.loader is torch.__loader__\nmain(22)\n",
    )
    done = world.run("script.py")
    assert done.returncode == 0, done.stderr
    check_leak(world.report(), script, 22)


def test_worker_processes_are_inert(world: World) -> None:
    script = world.write(
        "import multiprocessing\nfrom torch.utils.data import DataLoader, Dataset\n",
        LEAKING,
        """
        class Data(Dataset):
            def __len__(self):
                return 6

            def __getitem__(self, index):
                import sys
                core = sys.modules.get("leakguard._core")
                return torch.tensor([index, int(core is not None and core.watching())])

        def work(number):
            import sys
            kept = [torch.ones(number) for _ in range(30)]
            core = sys.modules.get("leakguard._core")
            return len(kept), core is not None and core.watching()

        if __name__ == "__main__":
            main(20)
            rows = torch.cat(list(DataLoader(Data(), num_workers=2, multiprocessing_context="fork")))
            assert rows.tolist() == [[index, 0] for index in range(6)], rows
            for method in ("fork", "spawn"):
                with multiprocessing.get_context(method).Pool(1) as pool:
                    print(pool.map(work, [5]))
        """,
    )
    done = world.run("script.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[(30, False)]\n" * 2
    assert len(re.findall(r"^LEAK ", done.stderr, re.MULTILINE)) == 1
    check_leak(world.report(), script, 20)
    assert sorted(file.name for file in world.folder.iterdir() if file.suffix == ".json") == ["report.json"]


def test_the_script_s_own_watch_is_the_same_one(world: World) -> None:
    script = world.write(
        LEAKING,
        """
        import leakguard
        guard = leakguard.watch(on_exit="always")
        main(25)
        print(guard.report().status)
        """,
    )
    done = world.run("script.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "leak\n"
    assert len(re.findall(r"^LEAK ", done.stderr, re.MULTILINE)) == 1
    check_leak(world.report(), script, 25)


def test_switched_off(world: World) -> None:
    world.write(LEAKING, "import sys\nmain(20)\nprint('leakguard._core' in sys.modules)\n")
    done = world.run("--fail-on", "leak", "script.py", LEAKGUARD="0")
    assert (done.returncode, done.stdout) == (0, "False\n")
    report = world.report()
    assert report["status"] == "inconclusive"
    assert "LEAKGUARD=0" in report["why"]


def test_two_ranks_write_two_reports(world: World) -> None:
    script = world.write(
        LEAKING,
        """
        from torch import distributed
        distributed.init_process_group("gloo")
        total = torch.ones(1)
        distributed.all_reduce(total)
        assert total.item() == 2
        main(20)
        distributed.destroy_process_group()
        """,
    )
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = world.python(*words, "-m", "leakguard", "run", "--json", "report.json", "script.py")
    assert done.returncode == 0, done.stderr
    reports = [world.report(f"report.rank{rank}.json") for rank in range(2)]
    for report in reports:
        check_leak(report, script, 20)
    assert not (world.folder / "report.json").exists()
    # The same cause has the same name on every rank.
    assert len({report["findings"][0]["fingerprint"] for report in reports}) == 1


def test_the_report_is_shown_again_without_torch(world: World) -> None:
    world.write(LEAKING, "main(20)\n")
    assert world.run("script.py").returncode == 0
    code = (
        "import sys, leakguard; print(leakguard.load('report.json').status, 'torch' in sys.modules);"
        "from leakguard.cli import main; main(['show', 'report.json']); print('torch' in sys.modules)"
    )
    done = world.python("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("leak False\n")
    assert done.stdout.endswith("False\n")
    assert "torch.zeros(64)" in done.stdout
    assert json.loads((world.folder / "report.json").read_text())["status"] == "leak"
