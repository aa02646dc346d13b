"""What a script sees of the world under `leakguard run`, next to plain python."""

from __future__ import annotations

from pathlib import Path

import pytest
from watched_world import World

from leakguard.cli.target import Target, split_arguments


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


SEEN = """
    import json, sys
    spec = __spec__ and __spec__.name
    names = [repr(globals().get(name)) for name in ("__name__", "__file__", "__package__", "__cached__")]
    kind = type(__loader__).__name__, type(__builtins__).__name__
    here = sys.modules["__main__"].__dict__ is globals()
    print(json.dumps([names, spec, kind, here, sys.argv, sys.path[0], sorted(vars())]))
"""


@pytest.mark.parametrize(
    "words",
    [
        ["script.py"],
        ["./script.py", "--json", "x", "-m", "y", "--", "z"],
        ["folder"],
        ["-m", "script", "--fail-on", "leak"],
        ["-m", "package"],
        ["-m", "package.inner", "-"],
        ["link.py"],
        ["script.pyc"],
    ],
    ids=" ".join,
)
def test_it_sees_what_it_would_see_under_plain_python(words: list[str], world: World) -> None:
    for name in (
        "script.py",
        "folder/__main__.py",
        "package/__init__.py",
        "package/__main__.py",
        "package/inner.py",
    ):
        world.write("" if name.endswith("__init__.py") else SEEN, name)
    world.write(SEEN, "elsewhere/script.py")
    (world.folder / "link.py").symlink_to("elsewhere/script.py")
    world.python("-c", "import py_compile; py_compile.compile('script.py', 'script.pyc')")
    plain = world.python(*words)
    assert plain.returncode == 0, plain.stderr
    assert world.run(*words).stdout == plain.stdout


def test_an_archive_runs_too(world: World) -> None:
    world.write(SEEN, "source/__main__.py")
    world.python("-m", "zipapp", "source", "-o", "app")
    plain = world.python("app", "x")
    assert plain.returncode == 0, plain.stderr
    assert world.run("app", "x").stdout == plain.stdout


def test_python_in_safe_path_mode_keeps_its_path(world: World) -> None:
    world.write("import sys; print(sys.path)")
    plain = world.python("-P", "script.py")
    watched = world.python("-P", "-m", "leakguard", "run", "script.py")
    assert watched.stdout == plain.stdout


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_and_pickled_classes_work_and_write_no_report(method: str, world: World) -> None:
    world.write(
        f"""
        import multiprocessing, pickle

        class Sample:
            def __init__(self, value):
                self.value = value

        def double(sample):
            return Sample(2 * sample.value)

        if __name__ == "__main__":
            assert pickle.loads(pickle.dumps(Sample(3))).value == 3
            with multiprocessing.get_context({method!r}).Pool(2) as pool:
                print([sample.value for sample in pool.map(double, [Sample(1), Sample(2)])])
        """
    )
    done = world.run("script.py")
    assert (done.returncode, done.stdout) == (0, "[2, 4]\n")
    assert world.asked().count("report") == 1


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "there is no SCRIPT to run"),
        (["none.py"], 2, "can't open file '{folder}/none.py': No such file or directory"),
        (["-m", "nothing_of_that_name"], 1, "No module named nothing_of_that_name"),
        (["-m", "package"], 1, "'package' is a package and cannot be directly executed"),
        (["package"], 1, "can't find '__main__' module in '{folder}/package'"),
        (["-m", "package.sub.more"], 1, "Error while finding module specification for 'package.sub.more'"),
        (["--nothing", "script.py"], 2, "unrecognized arguments: --nothing"),
    ],
)
def test_there_is_nothing_to_run(words: list[str], code: int, message: str, world: World) -> None:
    world.write("", "package/__init__.py")
    done = world.run(*words)
    assert done.returncode == code
    assert message.format(folder=world.folder) in done.stderr
    assert "Traceback" not in done.stderr
    assert not world.report_file.exists()


@pytest.mark.parametrize(
    ("module", "rest", "target"),
    [
        (None, ["train.py", "--lr", "1"], Target("train.py", ("--lr", "1"))),
        (None, ["--", "train.py", "--"], Target("train.py", ("--",))),
        (["pkg", "-m", "x"], [], Target("pkg", ("-m", "x"), is_module=True)),
        (["pkg"], ["--", "x"], Target("pkg", ("--", "x"), is_module=True)),
        (None, [], None),
        ([], [], None),
    ],
)
def test_arguments_of_the_script_are_its_own(
    module: list[str] | None, rest: list[str], target: Target | None
) -> None:
    assert split_arguments(module, rest) == target
