"""Known causes: which pattern fits which holder, no fix where it would be wrong, and a user's own file."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from leakguard.causes import CausesError, cause_of, load_causes
from leakguard.held import Container, Held
from leakguard.report import Example, Link, Place

LOSS = Link(edge="item", type="Tensor, [] float32, requires grad")
GRAPH = (
    Link(edge="grad_fn", type="MeanBackward0"),
    Link(edge="saved tensor", name="self", type="Tensor, [8] float32"),
)


def held(
    *links: Link, holder: int = 0, container: Container | None = None, status: str = "rooted", **more: object
) -> Held:
    values: dict[str, object] = {
        "root": "module global train.kept",
        "root_kind": "module global",
        "root_name": "kept",
        "retained_bytes": 0,
        "others": (),
        "collectable": None,
        "example": None,
        "seen_at": 20,
    }
    return Held(status=status, links=links, holder=holder, container=container, **(values | more))  # type: ignore[arg-type]


def kept(type: str) -> Link:
    return Link(edge="module global", name="kept", type=type)


CASES = {
    "attached-in-container": held(kept("list, 9 items"), LOSS, *GRAPH, container=Container("list", 9, None)),
    "container-without-limit": held(
        kept("list, 9 items"),
        Link(edge="item", type="Tensor, [] float32"),
        container=Container("list", 9, None),
    ),
    "attached-loss-total": held(kept("Tensor, [] float32, requires grad"), *GRAPH),
    "state-carried-in-graph": held(kept("Tensor, [4, 8] float32, requires grad"), *GRAPH),
    "exception-traceback": held(
        kept("list, 9 items"),
        Link(edge="item", type="ValueError"),
        Link(edge="traceback", type="traceback"),
        Link(edge="local", name="x", type="Tensor, [8] float32"),
        container=Container("list", 9, None),
    ),
    "logging-record": held(
        kept("list, 9 items"), Link(edge="item", type="LogRecord"), LOSS, container=Container("list", 9, None)
    ),
    "suspended-generator": held(
        kept("list, 9 items"),
        Link(edge="item", type="generator, batches"),
        Link(edge="local", name="x", type="Tensor, [8] float32"),
        container=Container("list", 9, None),
    ),
    "cache-without-limit": held(
        kept("_lru_cache_wrapper"), Link(edge="cache entry", type="Tensor, [8] float32")
    ),
    "unknown": held(kept("Registry"), Link(edge="reference", type="Tensor, [8] float32")),
}


@pytest.mark.parametrize("slug", CASES)
def test_each_holder_gets_its_cause_and_no_other(slug: str) -> None:
    assert cause_of(CASES[slug], Place(), "growing").slug == slug


def test_a_cycle_is_told_by_whether_the_collector_frees_it() -> None:
    cycle = held(
        Link(edge="cycle", type="Tensor, [8] float32"),
        Link(edge="attribute", name="grad", type="Tensor, [8] float32"),
        *GRAPH,
        status="garbage",
    )
    assert cause_of(cycle, Place(), "waiting-for-gc").slug == "garbage-cycle"
    assert cause_of(cycle, Place(), "growing").slug == "graph-cycle"


def test_a_view_is_told_from_a_tensor_of_its_own() -> None:
    example = Example(shape=(4, 44), dtype="float32")
    links = (kept("list, 9 items"), Link(edge="item", type="Tensor, [4, 44] float32"))
    item = held(*links, container=Container("list", 9, None), example=example)
    assert cause_of(item, Place(), "growing", block_bytes=35_200).slug == "view-pins-base"
    assert cause_of(item, Place(), "growing", block_bytes=4 * 44 * 4).slug == "container-without-limit"


def test_a_bounded_container_is_not_told_to_become_bounded() -> None:
    ring = held(kept("deque, 9 items"), LOSS, container=Container("deque", 9, 100))
    assert cause_of(ring, Place(), "bounded").fix is None


def test_nobody_known_to_hold_means_no_fix() -> None:
    assert cause_of(None, Place(), "growing").fix is None


def test_a_users_causes_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        '[[cause]]\nslug = "our-registry"\nfix = "call forget()"\nwhen = { holder = "Registry" }\n'
    )
    monkeypatch.setenv("LEAKGUARD_CAUSES", str(file))
    assert cause_of(CASES["unknown"], Place(), "growing").slug == "our-registry"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cause = 3", "cannot be read as causes"),
        ("[[cause]]\nfix = 'x'", "cause 1 has no slug"),
        ("[[cause]]\nslug = 'x'\nwhen = { holdr = 'list' }", "does not know holdr"),
        ("[[cause", "cannot be read as causes"),
    ],
)
def test_a_file_that_cannot_be_used_says_where(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "own.toml"
    file.write_text(text)
    with pytest.raises(CausesError, match=said):
        load_causes(file)


def test_the_own_catalogue_has_distinct_slugs_with_an_explanation_each() -> None:
    import leakguard.causes

    causes = load_causes(Path(leakguard.causes.__file__).with_name("causes.toml"))
    assert len({cause.slug for cause in causes}) == len(causes) > 8
    assert all(cause.explanation for cause in causes)
