"""The page of a recording, as text: every part there, the same words as in the terminal, nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from sample_recordings import BREAKING, EARLIER, FULL, HOSTILE, RECORDINGS, long_run
from sample_reports import HISTORY, PROJECT, REPORTS, TRAIN

from leakguard.cli import main
from leakguard.recording import Recording, SourceLines, named_places
from leakguard.render.text import to_text
from leakguard.report import Report
from leakguard.sources import sources_of

VOID = {"meta", "br", "img", "input", "link", "hr"}


class Page(HTMLParser):
    """Elements that are closed in the order of their opening, and the words outside style and script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.code: dict[str, list[str]] = {"style": [], "script": []}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag in self.code:
            self.code[tag].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in self.code:
            self.code[self.open[-1]][-1] += data
        else:
            self.words.append(data)

    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def values(self, name: str) -> list[str]:
        return [value or "" for _, attribute, value in self.attributes if attribute == name]


def page_of(recording: Recording, **options: object) -> Page:
    return Page(recording.to_html(folder=PROJECT, **options))


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_word_of_the_terminal_is_on_the_page(name: str) -> None:
    page = page_of(RECORDINGS[name])
    said = page.text() + " " + " ".join(page.values("aria-label"))
    report = to_text(RECORDINGS[name].report, width=120, folder=PROJECT)
    for word in set(re.sub(r"[┬├╰─│]", " ", report).split()):
        if word == "-":  # an empty cell
            continue
        assert word in said or word.rstrip(",") in said, word


@pytest.mark.parametrize("name", RECORDINGS)
def test_nothing_is_loaded_and_nothing_is_inline(name: str) -> None:
    text = RECORDINGS[name].to_html(folder=PROJECT)
    page = Page(text)
    assert not page.values("src")
    assert not page.values("style")
    assert all(value.startswith("#") for value in page.values("href"))
    assert not [attribute for _, attribute, _ in page.attributes if attribute.startswith("on")]
    assert {tag for tag, *_ in page.attributes} & {"img", "link", "iframe", "object", "form"} == set()


@pytest.mark.parametrize("name", RECORDINGS)
def test_its_policy_allows_its_own_style_and_script_alone(name: str) -> None:
    page = page_of(RECORDINGS[name])
    policy = page.values("content")[1]
    assert policy.startswith("default-src 'none'; ")
    for kind, code in (("style", page.code["style"][0]), ("script", page.code["script"][-1])):
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}';" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("name", RECORDINGS)
def test_links_lead_to_parts_that_are_there(name: str) -> None:
    page = page_of(RECORDINGS[name])
    names = page.values("id")
    assert len(names) == len(set(names))
    assert {link.removeprefix("#") for link in page.values("href")} <= set(names)


def test_hostile_names_are_words_only() -> None:
    text = HOSTILE.to_html(folder=PROJECT)
    page = Page(text)
    assert text.count("<script") == 2
    assert "<img" not in text
    assert "\u2028" not in text
    assert "\x1b" not in text
    data = json.loads(page.code["script"][0])
    assert any(name.startswith("</script><script>alert(1)") for name in data["series"])
    assert BREAKING.split("\u2028")[0] in page.text()


def test_chart_data_add_up() -> None:
    data = json.loads(page_of(FULL).code["script"][0])
    assert FULL.snapshot is not None
    assert sum(group[1] for group in data["groups"]) == sum(group.bytes for group in FULL.snapshot.groups)
    assert sum(group[2] for group in data["groups"]) == sum(group.blocks for group in FULL.snapshot.groups)
    assert data["series"]["cuda:0"]["survivors"] == [row.survivors for row in FULL.table.of("cuda:0")]
    assert data["reserved"] == {"cuda:0": 64 * 2**20}
    hot = data["findings"][0]["places"][0]
    assert any(group[5:9] == hot[:4] for group in data["groups"])


def test_what_has_grown_since_the_warm_up() -> None:
    said = page_of(FULL).text()
    assert "What has grown from the end of step 4 to the end of step 40 change blocks alive call site" in said
    assert "+30.0 MiB +20 57.0 MiB cuda:0 train.py:41 in Net.forward F.relu(self.fc1(x))" in said
    assert "2 other call sites" in said


def test_lines_of_source_are_shown_and_the_named_one_is_marked() -> None:
    text = FULL.to_html(folder=PROJECT)
    named = re.findall(r'<span class="line named">(.*?)\n</span>', text, re.DOTALL)
    assert [re.sub("<.*?>", "", line) for line in named] == ["41        h = F.relu(self.fc1(x))"]
    assert "<figcaption>train.py</figcaption>" in text


def test_without_source_no_text_of_the_program_is_left() -> None:
    shared = FULL.to_html(folder="/nowhere", source=False)
    for secret in ("F.relu", "self.fc1", "--epochs", PROJECT, "return self.fc2"):
        assert secret not in shared, secret
    assert "train.py:41 in Net.forward" in Page(shared).text()
    full = FULL.to_html(folder="/nowhere")
    assert "F.relu" in full and PROJECT in full


def test_without_source_sentences_lose_their_expressions_and_folders() -> None:
    finding = replace(
        HISTORY,
        title="cpu grows",
        why="x keeps what F.relu(self.fc1(x)) (/home/user/project/train.py:41) makes and/or leaks",
        root="local 'total' in main() at /home/user/project/train.py:31",
        also_born_at=(replace(HISTORY.allocated_at, expression="leak"),),
    )
    report = replace(REPORTS["leak"], why=finding.why, findings=(finding,))
    page = page_of(Recording(report=report), source=False)
    assert "LEAK cpu grows why x keeps what … (train.py:41) makes and/or leaks" in page.text()
    assert "F.relu" not in page.text() and "/home/user" not in page.text()
    assert {"leak", "growing"} <= {*page.values("data-status"), *page.values("data-verdict")}


def test_two_runs_without_source_differ_as_much_as_with_it() -> None:
    options = {"before": EARLIER, "source": False}
    shared, full = page_of(FULL, **options).text(), page_of(FULL, before=EARLIER).text()
    assert "--epochs" not in shared and "F.relu" not in shared
    for figures in ("-3.00 MiB 60.0 MiB 57.0 MiB", "train.py:41 in Net.forward"):
        assert figures in shared and figures in full


def test_what_differs_between_two_runs() -> None:
    page = page_of(FULL, before=EARLIER)
    said = page.text()
    assert "What differs" in said
    assert "train.py --epochs 2" in said
    assert "alive at the end, by call site" in said
    assert "77aa0012" in said  # gone in the later run
    assert json.loads(page.code["script"][0])["before"].keys() == {"cuda:0", "cpu"}
    same = page_of(FULL, before=FULL).text()
    assert "alive at the end" not in same
    assert "1 finding in both, growing alike" in same


def test_a_long_run_makes_a_page_of_bearable_size() -> None:
    assert len(long_run(10_000, 2_000).to_html()) < 10 * 2**20


def test_lines_around_the_places_of_a_finding(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("".join(f"line {number}\n" for number in range(1, 31)))
    place = replace(HISTORY.allocated_at, file=str(file), line=3)
    near, far = replace(place, line=12), replace(place, line=29)
    lost = replace(place, file=str(tmp_path / "gone.py"))
    finding = replace(HISTORY, allocated_at=place, also_born_at=(near, far, lost), retained_by=())
    assert named_places(finding)[0] == (str(file), 3)
    assert sources_of([finding, finding]) == (
        SourceLines(file=str(file), first=1, lines=tuple(f"line {n}" for n in range(1, 17))),
        SourceLines(file=str(file), first=25, lines=tuple(f"line {n}" for n in range(25, 31))),
    )


def saved(path: Path, report: Report) -> Path:
    report.save(path)
    return path


def test_the_command_writes_the_page_beside_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = saved(tmp_path / "report.json", REPORTS["leak"])
    assert main(["html", str(report)]) == 0
    assert capsys.readouterr().out == f"saved {tmp_path / 'report.html'}\n"
    assert HISTORY.title in Page((tmp_path / "report.html").read_text()).text()


def test_the_command_compares_and_writes_to_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = saved(tmp_path / "a.json", REPORTS["several"])
    after = saved(tmp_path / "b.json", REPORTS["clean"])
    assert main(["html", str(before), "--diff", str(after), "-o", "-", "--no-source"]) == 0
    page = Page(capsys.readouterr().out)
    assert "What differs" in page.text()
    assert "CLEAN" in page.text()
    assert TRAIN not in page.text()


def test_the_command_says_why_it_cannot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["html", str(tmp_path / "none.json")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    report = saved(tmp_path / "report.json", REPORTS["leak"])
    assert main(["html", str(report), "-o", str(tmp_path / "no" / "folder.html")]) == 2
    assert "Make its folder first" in capsys.readouterr().err
