"""What the markers may say, and what becomes of one that says something else."""

from __future__ import annotations

import pytest
from plugin_world import PluginWorld

MISUSES = {
    'limit_gpu_leaks("5")': "'5' is not a size: write a number and a unit",
    'limit_gpu_leaks("5 apples")': "'5 apples' is not a size",
    "limit_gpu_leaks(5)": "5 is not a size",
    'limit_gpu_leaks("0 B", warmup=-1)': "warmup is -1: give a whole number, 0 or more",
    'limit_gpu_leaks("0 B", repeats=0)': "repeats is 0: give a whole number, 1 or more",
    'limit_gpu_leaks("0 B", repeats=True)': "repeats is True",
    'limit_gpu_leaks("0 B", repeats="3")': "repeats is '3'",
    'limit_gpu_leaks("0 B", repeat=3)': r"argument 'repeat'; write it as limit_gpu_leaks\('0 B', warmup=3",
    'limit_gpu_leaks("0 B", 3)': "too many positional arguments|takes from 0 to 1 positional arguments",
    'limit_gpu_leaks("0 B", filter_fn="large")': "filter_fn is 'large': give a function",
    "limit_gpu_memory()": "missing 1 required positional argument: 'size'",
    'limit_gpu_memory("1 XB")': "'1 XB' is not a size",
    "skip_leak_check": r"write it as skip_leak_check\(reason='why'\)",
    'skip_leak_check(reason="")': "it needs a reason",
    'skip_leak_check("because")': r"write it as skip_leak_check\(reason='why'\)",
}


@pytest.mark.parametrize("marker", MISUSES)
def test_misuse_is_an_error_of_its_file_and_says_how_to_write_it(marker: str, project: PluginWorld) -> None:
    project.write(f"""
        import pytest

        @pytest.mark.{marker}
        def test_it():
            pass
    """)
    result = project.run()
    result.assert_outcomes(errors=1)
    name = marker.partition("(")[0]
    result.stdout.re_match_lines([rf"test_it.py::test_it: @pytest.mark.{name}: .*({MISUSES[marker]})"])


def test_other_files_are_collected_all_the_same(project: PluginWorld) -> None:
    project.write("import pytest\n@pytest.mark.limit_gpu_leaks('x')\ndef test_it(): pass", "test_wrong")
    project.write("def test_it(): pass", "test_right")
    project.run("--continue-on-collection-errors").assert_outcomes(errors=1, passed=1)


PLACES = {
    "parameter": """
        two = pytest.param(2, marks=pytest.mark.limit_gpu_leaks("x"))

        @pytest.mark.parametrize("n", [1, two])
        def test_it(n): pass
    """,
    "class": """
        @pytest.mark.limit_gpu_leaks("x")
        class TestIt:
            def test_it(self): pass
    """,
    "unittest": """
        import unittest

        class TestIt(unittest.TestCase):
            @pytest.mark.limit_gpu_leaks("x")
            def test_it(self): pass
    """,
    "module": """
        pytestmark = pytest.mark.limit_gpu_leaks("x")

        def test_it(): pass
    """,
}


@pytest.mark.parametrize("test", PLACES.values(), ids=PLACES)
def test_misuse_is_found_wherever_the_marker_stands(test: str, project: PluginWorld) -> None:
    project.write("        import pytest\n" + test)
    result = project.run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*@pytest.mark.limit_gpu_leaks: 'x' is not a size*"])


def test_a_marker_that_is_added_after_collection_is_read_too(project: PluginWorld) -> None:
    project.write(
        """
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                size = "0 B" if "leaks" in item.name else "x"
                item.add_marker(pytest.mark.limit_gpu_leaks(size))
    """,
        "conftest",
    )
    project.write("""
        import torch

        KEPT = []

        def test_leaks():
            KEPT.append(torch.zeros(10))

        def test_wrong():
            pass
    """)
    result = project.run()
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*@pytest.mark.limit_gpu_leaks: 'x' is not a size*"])


def test_the_markers_are_listed_with_their_arguments(project: PluginWorld) -> None:
    result = project.run("--markers")
    result.stdout.fnmatch_lines(
        [
            "@pytest.mark.limit_gpu_leaks(size, warmup, repeats, filter_fn): Fail when a call site keeps*",
            "@pytest.mark.limit_gpu_memory(size): Fail when *",
            "@pytest.mark.skip_leak_check(reason): Leave this test out of --leakguard*",
        ]
    )


def test_they_need_no_option_and_no_ini_file_under_strict_markers(project: PluginWorld) -> None:
    project.write("""
        import pytest

        @pytest.mark.limit_gpu_leaks("0 B")
        @pytest.mark.limit_gpu_memory("1 GiB")
        @pytest.mark.skip_leak_check(reason="an example")
        def test_it():
            pass
    """)
    project.run("--strict-markers").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--leakguard-limit=5"], "leakguard_limit: '5' is not a size"),
        (["--leakguard-repeats=0"], "leakguard_repeats: '0' is not a whole number, 1 or more"),
        (["--leakguard-warmup=some"], "leakguard_warmup: 'some' is not a whole number, 0 or more"),
        (["-o", "leakguard_limit=many"], "leakguard_limit: 'many' is not a size"),
    ],
)
def test_a_setting_that_cannot_be_meant_ends_the_session(
    arguments: list[str], message: str, project: PluginWorld
) -> None:
    project.write("def test_it(): pass")
    result = project.run(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()
