"""The session's settings, from the command line and the ini file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from leakguard.units import parse_size

__all__ = ["Settings", "add_options"]

BASELINE = "leakguard-baseline.json"


@dataclass(frozen=True, slots=True)
class Settings:
    """What was asked for. `limit` is the bytes that one call site may keep where a marker does not say."""

    everything: bool
    limit: int
    warmup: int | None
    repeats: int | None
    json: Path | None
    html: Path | None
    baseline: Path
    update_baseline: bool
    user_code: tuple[str, ...]

    @classmethod
    def of(cls, config: pytest.Config) -> Settings:
        """The settings of a session. Raises pytest.UsageError for one that cannot be meant."""
        return cls(
            everything=bool(config.getoption("leakguard") or config.getini("leakguard")),
            limit=_size(config),
            warmup=_count(config, "leakguard_warmup", least=0),
            repeats=_count(config, "leakguard_repeats", least=1),
            json=_path(config, config.getoption("leakguard_json")),
            html=_path(config, config.getoption("leakguard_html")),
            baseline=_path(config, _option(config, "leakguard_baseline"), config.rootpath)
            or config.rootpath / BASELINE,
            update_baseline=bool(config.getoption("leakguard_update_baseline")),
            user_code=tuple(config.getini("leakguard_user_code")),
        )


def add_options(parser: pytest.Parser) -> None:
    """Declares the options; each that can also stand in the ini file has the same name there."""
    group = parser.getgroup("leakguard", "tensor memory (leakguard)")
    group.addoption("--leakguard", action="store_true", help="check every test, not only the marked ones")
    parser.addini("leakguard", "check every test, as --leakguard does", type="bool", default=False)
    _both(
        parser,
        "--leakguard-limit",
        "SIZE",
        "what one call site may keep where no marker says: '0 B' if not given",
    )
    _both(
        parser,
        "--leakguard-warmup",
        "N",
        "runs of a test body that do not count: as many as needed, at most 3, if not given",
    )
    _both(
        parser,
        "--leakguard-repeats",
        "N",
        "runs of a test body that must all grow: 8 if not given; 1 compares before and after",
    )
    _both(
        parser,
        "--leakguard-baseline",
        "FILE",
        f"leaks that are known and fail no test: {BASELINE} in the root folder if not given",
    )
    group.addoption(
        "--leakguard-update-baseline", action="store_true", help="write what leaks now into the baseline"
    )
    group.addoption("--leakguard-json", metavar="FILE", help="write what was found as JSON")
    group.addoption("--leakguard-html", metavar="FILE", help="write what was found as a page")
    parser.addini(
        "leakguard_user_code", "installed packages whose lines count as yours", type="args", default=[]
    )


def _both(parser: pytest.Parser, option: str, metavar: str, help: str) -> None:
    parser.getgroup("leakguard").addoption(option, metavar=metavar, help=help)
    parser.addini(option.removeprefix("--").replace("-", "_"), help)


def _option(config: pytest.Config, name: str) -> str | None:
    value: Any = config.getoption(name)
    return value if value is not None else (config.getini(name) or None)


def _size(config: pytest.Config) -> int:
    text = _option(config, "leakguard_limit")
    try:
        return 0 if text is None else parse_size(text)
    except ValueError as error:
        raise pytest.UsageError(f"leakguard_limit: {error}") from error


def _count(config: pytest.Config, name: str, *, least: int) -> int | None:
    text = _option(config, name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) < least:
        raise pytest.UsageError(f"{name}: {text!r} is not a whole number, {least} or more")
    return int(text)


def _path(config: pytest.Config, text: str | None, folder: Path | None = None) -> Path | None:
    return None if text is None else (folder or config.invocation_params.dir) / text
