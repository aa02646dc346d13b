"""What leakguard must never do to the program it watches: promises that need a process of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from real_world import CLEAN, LEAKING, World  # noqa: E402


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_importing_it_imports_and_prints_nothing(world: World) -> None:
    code = """
        import sys
        before = set(sys.modules)
        import leakguard
        assert callable(leakguard.watch) and callable(leakguard.step) and callable(leakguard.load)
        new = set(sys.modules) - before
        heavy = sorted(name for name in new if name.split(".")[0] in ("torch", "numpy", "rich"))
        native = sorted(name for name in new if name.startswith("leakguard._core"))
        sys.exit(repr((heavy, native)) if heavy or native else 0)
    """
    world.write(code)
    done = world.python("script.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(
    torch.version.cuda is not None,
    reason="a CUDA build's engine threads may meet the ending interpreter (before CPython 3.14), watched or not",
)
def test_the_interpreter_ends_with_live_tensors(world: World) -> None:
    world.write(
        CLEAN,
        """
        import threading
        import leakguard

        leakguard.watch()
        model = nn.Linear(64, 64)
        tensors = [torch.ones(100) for _ in range(1000)]
        graph = model(torch.ones(3, 64)).relu()
        cycle = {"tensor": torch.ones(10)}
        cycle["self"] = cycle
        main(20)

        def wait_for_ever():
            mine = torch.ones(10)
            threading.Event().wait()
            return mine

        threading.Thread(target=wait_for_ever, daemon=True).start()
        """,
    )
    done = world.python("script.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_end_of_the_process_says_a_leak(world: World) -> None:
    leaking = LEAKING.replace("history = []", "global history")
    world.write(leaking, "import leakguard\nhistory = []\nleakguard.watch(save='own.json')\nmain(20)\n")
    done = world.python("script.py")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("LEAK")
    assert "torch.zeros(64)" in done.stderr
    assert "module global script.history" in done.stderr  # __main__.__file__ is gone by then
    assert "__main__" not in done.stderr
    assert world.report("own.json")["status"] == "leak"


def test_a_forked_child_ends_without_a_word(world: World) -> None:
    world.write(
        LEAKING,
        """
        import os, sys
        import leakguard

        leakguard.watch(save="own.json", on_exit="always")
        main(20)
        child = os.fork()
        if child == 0:
            kept = [torch.zeros(64) for _ in range(20)]  # no backward: a forked CUDA build of torch refuses it
            sys.exit(5)  # by way of every function that is registered for the end
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), os.path.exists("own.json"))
        """,
    )
    done = world.python("script.py")
    assert (done.returncode, done.stdout) == (0, "5 False\n"), done.stderr
    assert done.stderr.count("LEAK") == 1
    assert world.report("own.json")["steps"]["count"] == 20


def test_a_spawned_child_is_inert_while_it_imports_the_script(world: World) -> None:
    world.write(
        LEAKING,
        """
        import multiprocessing
        import leakguard

        guard = leakguard.watch(on_exit="always", save="own.{pid}.json")

        def work(number):
            main(number)
            return guard.report().why

        def rank(number):
            with leakguard.watch(on_exit="never") as own:
                main(number)
            return own.report().status

        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.apply(work, [20]))
                print(pool.apply(rank, [20]))
            guard.stop()
        """,
    )
    done = world.python("script.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "this is a spawned worker that imports its parent's script\nleak\n"
    assert done.stderr == ""
    assert len(list(world.folder.glob("own.*.json"))) == 1


def test_switched_off_it_loads_nothing(world: World) -> None:
    world.write(
        """
        import sys
        import leakguard

        guard = leakguard.watch(on_exit="always", save="own.json")
        with leakguard.watch() as other:
            leakguard.step()
            other.step()
        print(guard.active, guard.report().status, guard.report().why)
        assert "torch" not in sys.modules
        assert "leakguard._core" not in sys.modules
        """
    )
    done = world.python("script.py", LEAKGUARD="0")
    expected = "False inconclusive leakguard is switched off by LEAKGUARD=0\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")
    assert not (world.folder / "own.json").exists()


def test_each_rank_saves_its_own_report(world: World) -> None:
    world.write(
        LEAKING,
        """
        import leakguard
        from torch import distributed
        distributed.init_process_group("gloo")
        with leakguard.watch(save="own.json", on_exit="never"):
            main(20)
        distributed.destroy_process_group()
        """,
    )
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "script.py"]
    done = world.python(*words)
    assert done.returncode == 0, done.stderr
    assert [world.report(f"own.rank{rank}.json")["status"] for rank in range(2)] == ["leak", "leak"]
    assert not (world.folder / "own.json").exists()


def test_an_injected_failure_is_said_once_and_training_goes_on(world: World) -> None:
    world.write(
        CLEAN,
        """
        import leakguard
        from leakguard.engine import Engine

        def broken(self):
            raise RuntimeError("injected")

        Engine._mark = broken
        guard = leakguard.watch()
        main(20)
        print("trained", guard.report().lost.failures >= 20)
        """,
    )
    done = world.python("script.py")
    assert (done.returncode, done.stdout) == (0, "trained True\n")
    assert done.stderr == "leakguard: an internal failure, training goes on: RuntimeError: injected\n"
