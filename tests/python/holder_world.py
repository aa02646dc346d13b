"""How the tests of the holder search ask and read: a suspect is a storage, named by its data address."""

from __future__ import annotations

from typing import Any

import torch

from leakguard._native import core

Link = tuple[str, str | None, str]


def address_of(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def ask(*addresses: int, **options: Any) -> dict[str, Any]:
    """The answer for the first address; the accounting must close in every walk of every test."""
    report = core.find_holders(list(addresses), **options)
    statistics = report["statistics"]
    assert statistics["nodes"] > 0, "the walk failed"
    assert statistics["overshown"] == 0, statistics["overshown_types"]
    answer: dict[str, Any] = report["suspects"][0]
    return answer


def links(answer: dict[str, Any]) -> list[Link]:
    return [(link["edge"], link["name"], link["type"]) for link in answer["retained_by"]]


def chain(address: int) -> list[Link]:
    """Edge, name and type of every link from the root to the tensor."""
    answer = ask(address)
    assert answer["status"] == "rooted", answer
    return links(answer)
