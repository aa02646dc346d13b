"""A whole session: every test under check, the baseline, what is left behind, the files it writes."""

from __future__ import annotations

import json

import pytest
from plugin_world import LEAK, PluginWorld, failure_of

UNMARKED = """
    import torch

    KEPT = []

    def test_leaks():
        KEPT.append(torch.zeros(256))  # leaks

    def test_is_clean():
        torch.zeros(256)
"""


def test_unmarked_tests_are_checked_only_when_asked(project: PluginWorld) -> None:
    project.write(UNMARKED)
    project.run().assert_outcomes(passed=2)
    project.run("--leakguard").assert_outcomes(passed=1, failed=1)
    project.run("-o", "leakguard=true").assert_outcomes(passed=1, failed=1)


def test_the_ini_file_has_the_same_words(project: PluginWorld) -> None:
    project.write(UNMARKED)
    project.pytester.makepyprojecttoml("""
        [tool.pytest.ini_options]
        leakguard = true
        leakguard_limit = "1 KiB"
        leakguard_repeats = "3"
        leakguard_warmup = "1"
    """)
    project.run("--leakguard-json=leaks.json").assert_outcomes(passed=2)
    project.run("--leakguard-limit=1023 B", "--leakguard-json=leaks.json").assert_outcomes(passed=1, failed=1)
    assert project.runs() == {"test_leaks": 4, "test_is_clean": 2}


def test_the_header_says_what_is_checked(project: PluginWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write("def test_it(): pass")
    result = project.run("--leakguard", "--leakguard-limit=2 KiB")
    result.stdout.fnmatch_lines(["leakguard: *, checks every test, limit 2.00 KiB a call site"])
    assert "leakguard:" not in project.run().stdout.str()
    monkeypatch.setenv("LEAKGUARD", "0")
    project.run("--leakguard").stdout.fnmatch_lines(["leakguard: switched off by LEAKGUARD=0"])


def test_switched_off_nothing_fails(project: PluginWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKGUARD", "0")
    project.write(LEAK)
    project.run("--leakguard").assert_outcomes(passed=1)


def test_a_test_may_be_left_out_for_a_reason(project: PluginWorld) -> None:
    project.write("""
        import pytest, torch

        KEPT = []

        @pytest.mark.skip_leak_check(reason="fills the cache that the other tests use")
        def test_fills():
            KEPT.append(torch.zeros(256))
    """)
    project.run("--leakguard").assert_outcomes(passed=1)


def test_an_unmarked_body_that_cannot_be_repeated_is_undecided_and_passes(project: PluginWorld) -> None:
    project.write("""
        import torch

        KEPT = []

        def test_makes_a_folder(tmp_path):
            (tmp_path / "out").mkdir()
            KEPT.append(torch.zeros(256))
    """)
    result = project.run("--leakguard")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "not decided: 1 test",
            "  test_it.py::test_makes_a_folder  FileExistsError in run 2 of the test body*",
        ]
    )


def test_a_baseline_lets_known_leaks_pass_and_new_ones_fail(project: PluginWorld) -> None:
    project.write(UNMARKED)
    baseline = project.path / "leakguard-baseline.json"
    project.run("--leakguard", "--leakguard-update-baseline").assert_outcomes(passed=2)
    (known,) = json.loads(baseline.read_text())["known"].values()
    assert known["where"] == "test_leaks: torch.zeros(256)"
    assert known["tests"] == ["test_it.py::test_leaks"]

    more = "    def test_new():\n        KEPT.append(torch.ones(9))\n"
    project.write("\n\n\n" + UNMARKED + "\n" + more)
    result = project.run("--leakguard")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        ["known leaks, in the baseline: 1 test", "  test_it.py::test_leaks  test_it.py:*"]
    )
    assert failure_of(result, "test_new")

    written = baseline.read_bytes()
    project.run("--leakguard", "-k", "test_leaks", "--leakguard-update-baseline")
    assert baseline.read_bytes() == written  # nothing has changed: neither has the file


def test_a_leak_that_is_mended_leaves_the_baseline_at_its_next_update(project: PluginWorld) -> None:
    project.write(UNMARKED)
    baseline = project.path / "known.json"
    project.run("--leakguard", "--leakguard-update-baseline", "--leakguard-baseline=known.json")
    assert json.loads(baseline.read_text())["known"]
    project.write(UNMARKED.replace("KEPT.append", "len"))
    project.run(
        "--leakguard", "--leakguard-update-baseline", "--leakguard-baseline=known.json", "-k", "clean"
    )
    assert json.loads(baseline.read_text())["known"]  # its test did not run
    project.run("--leakguard", "--leakguard-update-baseline", "--leakguard-baseline=known.json")
    assert json.loads(baseline.read_text())["known"] == {}


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"schema": 2, "known": {}}', '{"schema": 1, "known": {"x": {}}}']
)
def test_a_baseline_that_cannot_be_read_is_said_to_be_so(text: str, project: PluginWorld) -> None:
    project.write(LEAK)
    project.path.joinpath("leakguard-baseline.json").write_text(text)
    result = project.run()
    assert result.ret != 0
    assert "leakguard-baseline.json" in result.stdout.str() + result.stderr.str()
    assert "--leakguard-update-baseline" in result.stdout.str() + result.stderr.str()


def test_what_a_test_leaves_behind_is_charged_to_it(project: PluginWorld) -> None:
    project.write("""
        import pytest, torch

        CACHE = {}

        @pytest.fixture(scope="module")
        def model():
            return torch.nn.Linear(8, 8)

        @pytest.fixture(scope="session")
        def table():
            CACHE["table"] = torch.arange(500.0)
            return CACHE["table"]

        @pytest.fixture
        def small():
            CACHE["small"] = torch.zeros(10)

        def test_with_a_model(model, table):
            model(torch.ones(2, 8)).sum().backward()

        def test_caches(small):
            CACHE["first"] = torch.zeros(1000)

        def test_clean():
            torch.zeros(1000)
    """)
    result = project.run("--leakguard", "--leakguard-json=leaks.json")
    result.assert_outcomes(passed=3)
    left = {
        (row["owner"]["fixture"] or row["owner"]["test"].split("::")[-1], row["owner"]["scope"]): row["bytes"]
        for row in project.json()["left_behind"]
    }
    assert left == {("test_caches", "function"): 4040, ("table", "session"): 2000}
    result.stdout.fnmatch_lines(
        [
            "left behind, alive after the last test: 5.90 KiB",
            "  test_it.py::test_caches  3.95 KiB on cpu in 2 blocks, born at test_it.py:* held by *CACHE*",
            "  session fixture table  1.95 KiB on cpu in 1 block, born at test_it.py:*",
        ]
    )


def test_a_failure_is_short_and_grows_with_v(project: PluginWorld) -> None:
    lists = "\n".join(f"KEPT_{n} = []" for n in range(8))
    sites = "\n".join(f"    KEPT_{n}.append(torch.zeros({n + 1}))" for n in range(8))
    marker = '@pytest.mark.limit_gpu_leaks("0 B")'
    project.write(f"import pytest, torch\n{lists}\n{marker}\ndef test_leaks():\n{sites}\n")
    short, longer, full = (
        failure_of(project.run(*options), "test_leaks") for options in ([], ["-v"], ["-vv"])
    )
    assert len(short) <= 25
    assert len(short) < len(longer) < len(full)
    assert short[0].startswith("LEAK  cpu grows 32 B a run")
    assert any("and 6 more" in line for line in short)
    assert sum("fingerprint" in line for line in short) == 1
    assert sum("fingerprint" in line for line in full) == 8


def test_junit_xml_and_the_short_summary_carry_the_line(project: PluginWorld) -> None:
    project.write(LEAK)
    result = project.run("--junitxml=junit.xml")
    place = f"test_it.py:{project.line('leaks')}"
    (failure,) = project.junit().iter("failure")
    assert failure.attrib["message"].startswith(f"{place}: cpu grows 1.00 KiB a run")
    assert failure.text is not None
    assert "held by" in failure.text
    result.stdout.fnmatch_lines([f"FAILED test_it.py::test_leaks - {place}: cpu grows *"])


def test_on_github_each_new_leak_is_an_annotation_at_its_line(
    project: PluginWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    project.write(LEAK)
    line = project.line("leaks")
    project.run().stdout.fnmatch_lines(
        [f"::error file=test_it.py,line={line},title=leakguard%3A cpu grows *::module global test_it.KEPT*"]
    )
    project.run("--leakguard-update-baseline")
    assert "::error" not in project.run().stdout.str()


def test_the_page_shows_each_test_and_what_it_keeps(project: PluginWorld) -> None:
    project.write(UNMARKED.replace("test_is_clean", "test_is_clean_and_well"))
    project.run("--leakguard", "--leakguard-html=out/leaks.html")
    page = (project.path / "out" / "leaks.html").read_text(encoding="utf-8")
    assert "2 tests checked" in page
    assert "test_is_clean_and_well" in page
    assert "module global test_it.KEPT" in page
    assert "http" not in page


def test_a_session_that_never_imports_torch_costs_no_import(project: PluginWorld) -> None:
    project.write("""
        import sys

        def test_it():
            assert "torch" not in sys.modules
            assert not any(name.startswith("leakguard._") and "version" not in name for name in sys.modules)
    """)
    for options in ([], ["--leakguard"]):
        done = project.run_alone("-q", *options)
        assert done.returncode == 0, done.stdout


def test_a_session_of_its_own_process(project: PluginWorld) -> None:
    project.write(LEAK)
    done = project.run_alone("-q")
    assert done.returncode == 1
    assert "module global test_it.KEPT" in done.stdout
