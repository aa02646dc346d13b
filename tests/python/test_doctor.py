"""`leakguard doctor`: what can be tracked here, said and as JSON."""

from __future__ import annotations

import json

import pytest
import torch

from leakguard import _native
from leakguard.cli import main

torch_has_gpu = torch.version.cuda is not None and torch.cuda.is_available()


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[str, str]]:
    return {check["name"]: (check["state"], check["found"]) for check in json.loads(capsys.readouterr().out)}


def test_all_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    checks = told(capsys)
    assert checks["CPU tensors"] == ("ok", "tracked")
    assert checks["torch"][1].startswith(f"{torch.__version__} in ")
    assert checks["native modules"][1].startswith(f"built for torch {torch.__version__}, Python cp3")
    (gpu,) = (value for name, value in checks.items() if name.startswith("CUDA tensors"))
    assert gpu[0] == ("ok" if torch_has_gpu else "note")


def test_it_is_readable(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("ok    leakguard       0.")
    assert "ok    CPU tensors     tracked" in lines


def test_modules_that_do_not_fit(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def unbuilt() -> None:
        raise ImportError("leakguard has not been built\n  do this")

    monkeypatch.setattr(_native, "read_build_facts", unbuilt)
    assert main(["doctor"]) == 1
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "BAD   native modules  leakguard has not been built",
        "                        do this",
    ]


def test_switched_off(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKGUARD", "0")
    assert main(["doctor", "--json"]) == 1
    assert told(capsys)["LEAKGUARD"][0] == "bad"
