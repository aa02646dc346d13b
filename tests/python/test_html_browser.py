"""The page in a real browser: it opens offline, draws, answers mouse and keyboard, and fits narrow screens."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sample_recordings import EARLIER, FULL, HOSTILE, RECORDINGS, long_run
from sample_reports import PROJECT

from leakguard.recording import Recording

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRAWN = "html[data-drawn=yes]"  # the page's policy lets no test evaluate a string while it waits
ALL_STEPS = "#timeline button:text('All steps')"

Opener = Callable[..., "Page"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Opener]:
    """Opens a recording as a page, from a file. A request to elsewhere, or a complaint of the page, fails the test."""
    trouble: list[str] = []
    contexts = []

    def open_page(recording: Recording, width: int = 1200, drawn: bool = True, **options: Any) -> Page:
        before = options.pop("before", None)
        file = tmp_path / "page.html"
        file.write_text(recording.to_html(before=before, folder=PROJECT), encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: trouble.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (trouble.append("a dialog"), dialog.dismiss()))
        page.on("request", lambda request: _note_request(trouble, request.url, file))
        page.goto(file.as_uri())
        if drawn:
            page.wait_for_selector(DRAWN, state="attached")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert trouble == []


def _note_request(trouble: list[str], url: str, file: Path) -> None:
    if not url.startswith(file.as_uri()):
        trouble.append(f"request: {url}")


def readout(page: Page, picture: str) -> str:
    return " ".join(page.locator(f"#{picture} .readout").inner_text().split())


@pytest.mark.parametrize("name", [*RECORDINGS, "two runs"])
def test_no_page_is_wider_than_the_screen(name: str, open_page: Opener) -> None:
    recording, before = (FULL, EARLIER) if name == "two runs" else (RECORDINGS[name], None)
    page = open_page(recording, before=before)
    for width in (1200, 390, 320):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_timeout(50)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("h1").is_visible()


def test_hostile_names_do_nothing(open_page: Opener) -> None:
    page = open_page(HOSTILE)
    assert page.locator("img").count() == 0
    assert "alert(1)" in page.locator("#icicle").inner_text()
    page.get_by_role("button", name="By call site").click()


def test_words_need_no_script(open_page: Opener) -> None:
    page = open_page(FULL, drawn=False, java_script_enabled=False)
    for words in ("LEAK", "history", "fc1", "The steps as a table"):
        assert page.get_by_text(words).first.is_visible()
    assert page.get_by_text("The picture needs JavaScript").first.is_visible()


def test_pointing_at_a_step_shows_its_figures(open_page: Opener) -> None:
    page = open_page(FULL)
    assert "steps 1 to 40" in readout(page, "timeline")
    chart = page.locator("#timeline svg.chart")
    box = chart.bounding_box()
    assert box is not None
    chart.hover(position={"x": 66 + (box["width"] - 76) * (33.5 / 40), "y": 100})
    shown = readout(page, "timeline")
    assert shown.startswith("step 34 at its end 56.0 MiB peak 94.0 MiB trough 54.0 MiB change +1.00 MiB")
    assert "of it alive 1.50 MiB where findings say 768 KiB reserved 102 MiB took 12.3 ms" in shown
    legend = page.locator("#timeline .legend").inner_text()
    assert "reserved by the allocator" in legend and "born where a finding says" in legend


def test_dragging_zooms_and_the_button_shows_all_again(open_page: Opener) -> None:
    page = open_page(FULL)
    chart = page.locator("#timeline svg.chart")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    reset = page.get_by_role("button", name="All steps")
    assert reset.is_disabled()
    page.mouse.move(box["x"] + 66 + (box["width"] - 76) / 4, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + 66 + (box["width"] - 76) / 2, box["y"] + 90, steps=4)
    page.mouse.up()
    page.mouse.move(5, 5)
    assert "steps 11 to 20" in readout(page, "timeline") or "steps 11 to 21" in readout(page, "timeline")
    reset.click()
    assert "steps 1 to 40" in readout(page, "timeline")


def test_the_wheel_zooms_where_it_points_and_then_lets_the_page_scroll(open_page: Opener) -> None:
    page = open_page(FULL)
    chart = page.locator("#timeline svg.chart")
    chart.scroll_into_view_if_needed()
    chart.hover()
    before = page.evaluate("scrollY")
    page.mouse.wheel(0, -100)
    page.wait_for_selector(f"{ALL_STEPS}:enabled")
    assert page.evaluate("scrollY") == before
    page.wait_for_timeout(350)
    for _ in range(3):
        page.mouse.wheel(0, 100)
    page.wait_for_selector(f"{ALL_STEPS}:disabled")


def test_the_keyboard_reaches_every_step(open_page: Opener) -> None:
    page = open_page(FULL)
    page.locator("#timeline svg.chart").focus()
    page.keyboard.press("Home")
    assert readout(page, "timeline").startswith("step 1 ")
    page.keyboard.press("ArrowRight")
    assert readout(page, "timeline").startswith("step 2 ")
    page.keyboard.press("End")
    assert readout(page, "timeline").startswith("step 40 ")
    page.keyboard.press("+")
    reset = page.get_by_role("button", name="All steps")
    assert reset.is_enabled()
    page.keyboard.press("Escape")
    assert reset.is_disabled()


def test_a_device_is_chosen(open_page: Opener) -> None:
    page = open_page(FULL)
    page.locator("#timeline").get_by_role("button", name="cpu", exact=True).click()
    assert "steps 40 to 40" in readout(page, "timeline")


def test_live_bytes_open_part_by_part(open_page: Opener) -> None:
    page = open_page(FULL)
    icicle = page.locator("#icicle")
    assert readout(page, "icicle").startswith("cuda:0 59.0 MiB 55 blocks 100 %")
    icicle.locator("g.cell", has_text="encoder").first.hover()
    assert readout(page, "icicle").startswith("encoder 57.0 MiB 38 blocks 97 %")
    icicle.locator("g.cell", has_text="encoder").first.click()
    assert icicle.get_by_role("button", name="Up").is_enabled()
    icicle.locator("svg.chart").focus()
    page.keyboard.press("ArrowDown")
    assert readout(page, "icicle").startswith("encoder › fc1 57.0 MiB")
    page.keyboard.press("ArrowDown")
    assert "F.relu(self.fc1(x))" in readout(page, "icicle")
    page.keyboard.press("Escape")
    assert icicle.get_by_role("button", name="Up").is_disabled()
    assert icicle.locator("g.cell.hot").count() == 1
    icicle.get_by_role("button", name="By call site").click()
    assert icicle.locator("g.cell", has_text="train.py").count() >= 1


def test_call_sites_are_found_by_words(open_page: Opener) -> None:
    page = open_page(long_run(20, 2_000))
    found = page.locator("#sites tbody tr")
    assert found.count() == 100
    assert "the first 100 of 2000" in page.locator("#sites").inner_text()
    page.get_by_role("searchbox").fill("weight_1234 LINEAR")
    assert found.count() == 1
    assert "package15/layers22.py:1235 in Layer37.forward" in found.inner_text()
    assert page.get_by_text("1 call site", exact=True).is_visible()


def test_the_theme_follows_the_system_until_one_is_chosen(open_page: Opener) -> None:
    page = open_page(FULL, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Switch to the light theme").click()
    light = page.evaluate(ground)
    assert dark != light
    page.reload()
    page.wait_for_selector(DRAWN, state="attached")
    assert page.evaluate(ground) == light


def test_a_long_run_is_thinned_to_the_pixels_that_there_are(open_page: Opener) -> None:
    page = open_page(long_run(10_000, 2_000))
    assert "steps 1 to 10000" in readout(page, "timeline")
    drawn = page.locator("#timeline path.allocated").first.get_attribute("d") or ""
    assert 500 < drawn.count("L") < 1300
    assert page.locator("#icicle g.cell").count() < 2_000
    assert page.locator("#icicle g.cell.rest").count() > 0


def test_on_paper_nothing_of_it_is_closed(open_page: Opener) -> None:
    page = open_page(FULL)
    assert len(page.pdf()) > 10_000
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert page.get_by_text("alive by call site").first.is_visible()


def test_live_bytes_by_category_of_either_run(open_page: Opener) -> None:
    page = open_page(FULL, before=EARLIER)
    icicle = page.locator("#icicle")
    icicle.get_by_role("button", name="By category").click()
    icicle.locator("g.cell", has_text="activation").first.hover()
    assert readout(page, "icicle").startswith("activation 57.0 MiB 38 blocks 97 %")
    icicle.get_by_role("button", name="Before").click()
    icicle.locator("g.cell", has_text="activation").first.hover()
    assert readout(page, "icicle").startswith("activation 60.0 MiB 40 blocks 100 %")
    assert "in use in the run before" in page.locator("#timeline .legend").inner_text()
