"""How soon a page of a long run can be read: 10 000 steps, 2 000 call sites, in headless Chromium.

python benchmarks/page.py [LOADS]
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "python"))

from sample_recordings import long_run

STEPS, SITES = 10_000, 2_000
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
DRAWN = "performance.getEntriesByName('leakguard-drawn')[0].startTime"
VIEW = {"width": 1280, "height": 900}


def main() -> None:
    loads = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    recording = long_run(STEPS, SITES)
    began = time.perf_counter()
    text = recording.to_html()
    seconds = time.perf_counter() - began
    print(f"{STEPS} steps, {SITES} call sites: {len(text.encode()) / 2**20:.2f} MiB, made in {seconds:.2f} s")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder, "page.html")
        file.write_text(text, encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        painted, drawn = [], []
        for _ in range(loads):
            page = browser.new_page(viewport=VIEW)
            page.goto(file.as_uri())
            page.wait_for_selector("html[data-drawn=yes]", state="attached")
            painted.append(page.evaluate(PAINTED))
            drawn.append(page.evaluate(DRAWN))
            page.close()
        browser.close()
    for name, times in (("verdict and findings painted", painted), ("pictures drawn", drawn)):
        print(f"{name}: median {statistics.median(times):.0f} ms, {min(times):.0f} ... {max(times):.0f}")


if __name__ == "__main__":
    main()
