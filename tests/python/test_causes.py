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
    "state-updated-in-graph": held(
        kept("Model"),
        Link(edge="attribute", name="mean", type="Tensor, [8] float32, requires grad"),
        *GRAPH,
        holder=1,
    ),
    "context-attribute": held(
        kept("list, 9 items"),
        LOSS,
        Link(edge="grad_fn", type="SumBackward0"),
        Link(edge="next function", type="ExponentialBackward"),
        Link(edge="attribute", name="result", type="Tensor, [8] float32"),
        container=Container("list", 9, None),
    ),
    "notebook-history": held(
        Link(edge="notebook output", name="Out", type="dict, 9 items"),
        Link(edge="item", name="5", type="Tensor, [8] float32"),
        container=Container("dict", 9, None),
        root="notebook output Out",
        root_kind="notebook output",
    ),
    "last-exception": held(
        Link(edge="last exception", name="sys.last_value", type="ValueError"),
        Link(edge="traceback", type="frame, train"),
        Link(edge="local", name="batch", type="Tensor, [8] float32"),
        root="last exception sys.last_value",
        root_kind="last exception",
    ),
    "optimizer-keeps-parameters": held(
        kept("SGD"),
        Link(edge="attribute", name="param_groups", type="list, 9 items"),
        Link(edge="item", type="dict, 10 items"),
        Link(edge="item", name="params", type="list, 2 items"),
        Link(edge="item", type="Parameter, [2] float32, requires grad"),
        holder=1,
        container=Container("list", 9, None),
    ),
    "models-in-a-registry": held(
        kept("list, 9 items"),
        Link(edge="item", type="Linear"),
        Link(edge="attribute", name="bias", type="Parameter, [16] float32, requires grad"),
        container=Container("list", 9, None),
    ),
    "weak-key-kept-by-its-value": held(
        kept("WeakKeyDictionary"),
        Link(edge="attribute", name="data", type="dict, 9 items"),
        Link(edge="item", type="tuple"),
        Link(edge="item", type="Tensor, [8] float32"),
        holder=1,
        container=Container("dict", 9, None),
    ),
    "hook-keeps-tensors": held(
        kept("Linear"),
        Link(edge="hook", name="forward_pre_hook", type="function, <lambda>"),
        Link(edge="default", name="scale", type="Tensor, [8] float32"),
        holder=2,
    ),
    "hook-stores-outputs": held(
        kept("Linear"),
        Link(edge="hook", name="forward_hook", type="function, store"),
        Link(edge="closure", name="seen", type="list, 9 items"),
        Link(edge="item", type="Tensor, [8] float32"),
        holder=2,
        container=Container("list", 9, None),
    ),
    "thread-local": held(
        kept("_local"),
        Link(edge="attribute", name="seen", type="dict, 9 items"),
        Link(edge="item", type="Tensor, [8] float32"),
        holder=1,
        container=Container("dict", 9, None),
    ),
    "closure": held(
        kept("list, 9 items"),
        Link(edge="item", type="function, <lambda>"),
        Link(edge="closure", name="mean", type="Tensor, [8] float32"),
        container=Container("list", 9, None),
    ),
    "optimizers-in-a-registry": held(
        kept("list, 9 items"),
        Link(edge="item", type="StepLR"),
        Link(edge="attribute", name="optimizer", type="Adam"),
        Link(edge="attribute", name="state", type="defaultdict, 4 items"),
        Link(edge="item", type="dict, 3 items"),
        Link(edge="item", name="exp_avg", type="Tensor, [2] float32"),
        container=Container("list", 9, None),
    ),
    "finalizers-pile-up": held(
        Link(edge="module global", name="finalize", type="class, finalize"),
        Link(edge="class attribute", name="_registry", type="dict, 9 items"),
        Link(edge="item", type="_Info"),
        Link(edge="attribute", name="args", type="tuple"),
        Link(edge="item", type="Tensor, [8] float32"),
        holder=1,
        container=Container("dict", 9, None),
    ),
    "linked-records": held(
        kept("Record"),
        Link(edge="attribute", name="previous", type="Record x 30"),
        Link(edge="attribute", name="scores", type="Tensor, [8] float32"),
    ),
    "metric-never-reset": held(
        kept("Accuracy"),
        Link(edge="attribute", name="preds", type="list, 9 items"),
        Link(edge="item", type="Tensor, [8] float32"),
        holder=1,
        container=Container("list", 9, None),
        owner_resets=True,
    ),
    "unknown": held(kept("Registry"), Link(edge="reference", type="Tensor, [8] float32")),
}


@pytest.mark.parametrize("slug", CASES)
def test_each_holder_gets_its_cause_and_no_other(slug: str) -> None:
    assert cause_of(CASES[slug], Place(), "growing").slug == slug


NEAR = {
    "notebook-history": held(
        Link(edge="module global", name="Out", type="dict, 9 items"),
        Link(edge="item", type="Tensor, [8] float32"),
        container=Container("dict", 9, None),
    ),
    "context-attribute": held(
        kept("list, 9 items"),
        LOSS,
        Link(edge="grad_fn", type="MeanBackward0"),
        Link(edge="next function", type="AccumulateGrad"),
        Link(edge="attribute", name="variable", type="Tensor, [8] float32, requires grad"),
        container=Container("list", 9, None),
    ),
    "optimizer-keeps-parameters": held(
        kept("Logger"),
        Link(edge="attribute", name="state", type="list, 9 items"),
        Link(edge="item", type="Tensor, [8] float32"),
        holder=1,
        container=Container("list", 9, None),
    ),
    "optimizers-in-a-registry": held(
        kept("list, 9 items"),
        Link(edge="item", type="Trainer"),
        Link(edge="attribute", name="state", type="dict, 3 items"),
        Link(edge="item", name="best", type="Tensor, [2] float32"),
        container=Container("list", 9, None),
    ),
    "finalizers-pile-up": held(
        Link(edge="module global", name="Best", type="class, Best"),
        Link(edge="class attribute", name="_registry", type="dict, 9 items"),
        Link(edge="item", type="tuple"),
        Link(edge="attribute", name="args", type="tuple"),
        Link(edge="item", type="Tensor, [8] float32"),
        holder=1,
        container=Container("dict", 9, None),
    ),
    "linked-records": held(
        kept("Record"),
        Link(edge="attribute", name="previous", type="Record"),
        Link(edge="attribute", name="scores", type="Tensor, [8] float32"),
    ),
    "metric-never-reset": held(
        kept("Sampler"),
        Link(edge="attribute", name="preds", type="list, 9 items"),
        Link(edge="item", type="Tensor, [8] float32"),
        holder=1,
        container=Container("list", 9, None),
    ),
    "models-in-a-registry": held(
        kept("list, 9 items"),
        Link(edge="item", type="Sample"),
        Link(edge="attribute", name="pixels", type="Tensor, [8] float32"),
        container=Container("list", 9, None),
    ),
    "weak-key-kept-by-its-value": held(
        kept("WeakValueDictionary"),
        Link(edge="attribute", name="data", type="dict, 9 items"),
        Link(edge="item", type="Tensor, [8] float32"),
        holder=1,
        container=Container("dict", 9, None),
    ),
    "hook-keeps-tensors": held(
        kept("Linear"), Link(edge="attribute", name="last", type="Tensor, [8] float32")
    ),
    "hook-stores-outputs": held(
        kept("list, 9 items"),
        Link(edge="item", type="Tensor, [8] float32"),
        container=Container("list", 9, None),
    ),
    "thread-local": held(
        kept("Store"),
        Link(edge="attribute", name="seen", type="dict, 9 items"),
        Link(edge="item", type="Tensor, [8] float32"),
        holder=1,
        container=Container("dict", 9, None),
    ),
    "closure": held(
        Link(edge="closure", name="kept", type="list, 9 items"),
        Link(edge="item", type="Tensor, [8] float32"),
        container=Container("list", 9, None),
    ),
    "state-updated-in-graph": held(
        kept("Model"),
        Link(edge="attribute", name="mean", type="Tensor, [8] float32"),
        holder=1,
    ),
    "attached-loss-total": held(kept("Tensor, [] float32")),
    "state-carried-in-graph": held(kept("Tensor, [4, 8] float32")),
    "exception-traceback": held(
        kept("list, 9 items"),
        Link(edge="item", type="ValueError"),
        Link(edge="attribute", name="batch", type="Tensor, [8] float32"),
        container=Container("list", 9, None),
    ),
    "suspended-generator": held(
        kept("list, 9 items"),
        Link(edge="item", type="Batches"),
        Link(edge="attribute", name="x", type="Tensor, [8] float32"),
        container=Container("list", 9, None),
    ),
    "cache-without-limit": held(kept("Cache"), Link(edge="item", type="Tensor, [8] float32")),
    "logging-record": held(
        kept("list, 9 items"), Link(edge="item", type="Record"), LOSS, container=Container("list", 9, None)
    ),
}


@pytest.mark.parametrize("slug", NEAR)
def test_what_looks_like_it_does_not_get_its_fix(slug: str) -> None:
    assert cause_of(NEAR[slug], Place(), "growing").slug != slug


def test_every_cause_has_a_case_where_it_fits() -> None:
    import leakguard.causes

    causes = load_causes(Path(leakguard.causes.__file__).with_name("causes.toml"))
    elsewhere = {
        "garbage-cycle",
        "graph-cycle",
        "backward-hook-cycle",
        "view-pins-base",
        "concatenated-in-every-step",
        "evaluation-with-gradients",
        "graph-retained",
        "context-cycle",
        "bound-method-cycle",
    }  # in the tests below
    assert {cause.slug for cause in causes} == elsewhere | CASES.keys() - {"unknown"}


def test_gradients_are_too_much_only_where_no_backward_pass_needs_them() -> None:
    outputs = CASES["attached-in-container"]
    assert cause_of(outputs, Place(), "growing", source="forward").slug == "evaluation-with-gradients"
    for source in ("backward", "optimizer", "explicit"):
        assert cause_of(outputs, Place(), "growing", source=source).slug == "attached-in-container"
    plain = CASES["container-without-limit"]
    assert cause_of(plain, Place(), "growing", source="forward").slug == "container-without-limit"


def test_a_graph_that_the_backward_pass_kept_is_told_from_one_that_it_has_not_seen() -> None:
    outputs = CASES["attached-in-container"]
    assert cause_of(outputs, Place(), "growing", retained=True).slug == "graph-retained"
    assert cause_of(outputs, Place(), "growing", retained=False).slug == "attached-in-container"


@pytest.mark.parametrize(
    "slug",
    ["container-without-limit", "attached-loss-total", "state-carried-in-graph", "state-updated-in-graph"],
)
def test_retain_graph_is_no_cause_where_there_is_another(slug: str) -> None:
    assert cause_of(CASES[slug], Place(), "growing", retained=True).slug == slug


def test_a_metric_with_a_graph_in_it_is_not_told_to_reset() -> None:
    links = (
        kept("Accuracy"),
        Link(edge="attribute", name="preds", type="list, 9 items"),
        LOSS,
        *GRAPH,
    )
    metric = held(*links, holder=1, container=Container("list", 9, None), owner_resets=True)
    assert cause_of(metric, Place(), "growing").slug == "attached-in-container"


def test_the_state_of_a_living_optimizer_is_told_by_where_its_blocks_are_born() -> None:
    state = held(
        kept("Adam"),
        Link(edge="attribute", name="state", type="defaultdict, 14 items"),
        Link(edge="item", type="dict, 3 items"),
        Link(edge="item", name="step", type="Tensor, [] float32"),
        holder=1,
        container=Container("defaultdict", 14, None),
    )
    assert cause_of(state, Place(phase="optimizer"), "growing").slug == "optimizer-keeps-parameters"
    assert cause_of(state, Place(phase="forward"), "growing").slug == "container-without-limit"


def test_a_list_that_grows_in_the_frame_of_one_generator_is_to_blame_itself() -> None:
    generator = kept("generator, smooth")
    seen = Link(edge="local", name="seen", type="list, 9 items")
    item = Link(edge="item", type="Tensor, [8] float32")
    grows = held(generator, seen, item, holder=1, container=Container("list", 9, None))
    assert cause_of(grows, Place(), "growing").slug == "container-without-limit"
    alone = held(generator, Link(edge="local", name="x", type="Tensor, [8] float32"), holder=1)
    assert cause_of(alone, Place(), "growing").slug == "suspended-generator"


def test_a_tensor_that_is_joined_with_more_is_told_from_one_that_is_kept() -> None:
    tensor = held(kept("Tensor, [60, 8] float32"))
    assert cause_of(tensor, Place(), "growing", regrown=True).slug == "concatenated-in-every-step"
    assert cause_of(tensor, Place(), "growing").slug == "unknown"


def test_the_cycle_of_a_backward_hook_is_told_from_that_of_a_gradient() -> None:
    cycle = held(
        Link(edge="cycle", type="BackwardHook"),
        Link(edge="attribute", name="grad_outputs", type="tuple"),
        Link(edge="item", type="Tensor, [8] float32, requires grad"),
        *GRAPH,
        status="garbage",
    )
    assert cause_of(cycle, Place(), "growing").slug == "backward-hook-cycle"


def test_the_cycle_of_a_context_is_told_from_that_of_a_node_of_torch() -> None:
    attribute = Link(edge="attribute", name="y", type="Tensor, [8] float32, requires grad")
    own = held(
        Link(edge="cycle", type="Tensor, [8] float32"),
        Link(edge="grad_fn", type="RevBlockBackward"),
        attribute,
        status="garbage",
    )
    from_node = held(Link(edge="cycle", type="RevBlockBackward"), attribute, status="garbage")
    torchs = held(Link(edge="cycle", type="MulBackward0"), attribute, status="garbage")
    for verdict in ("waiting-for-gc", "growing"):
        assert cause_of(own, Place(), verdict).slug == "context-cycle"
        assert cause_of(from_node, Place(), verdict).slug == "context-cycle"
        assert cause_of(torchs, Place(), verdict).slug != "context-cycle"


def test_the_cycle_of_a_method_is_told_from_that_of_plain_references() -> None:
    layer = Link(edge="cycle", type="Layer")
    weight = Link(edge="attribute", name="weight", type="Tensor, [8] float32")
    method = Link(edge="attribute", name="forward", type="method")
    bound = Link(edge="bound method", name="forward", type="Wrapper")
    assert cause_of(held(layer, method, bound, weight, status="garbage"), Place(), "waiting-for-gc").slug == (
        "bound-method-cycle"
    )
    other = Link(edge="attribute", name="owner", type="Wrapper")
    assert cause_of(held(layer, other, weight, status="garbage"), Place(), "waiting-for-gc").slug == (
        "garbage-cycle"
    )


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
    list_of = Container("list", 9, None)
    part = held(*links, container=list_of, example=example, block_bytes=35_200)
    assert cause_of(part, Place(), "growing").slug == "view-pins-base"
    whole = held(*links, container=list_of, example=example, block_bytes=4 * 44 * 4)
    assert cause_of(whole, Place(), "growing").slug == "container-without-limit"


def test_the_exception_that_ended_the_program_is_not_the_cause() -> None:
    links = (
        Link(edge="module global", name="last_traceback", type="traceback"),
        Link(edge="traceback", type="frame, main"),
        Link(edge="local", name="hoard", type="list, 9 items"),
        Link(edge="item", type="Tensor, [8] float32"),
    )
    container = Container("list", 9, None)
    ended = held(*links, holder=2, container=container, root="module global sys.last_traceback")
    assert cause_of(ended, Place(), "growing").slug == "container-without-limit"
    kept_by_program = held(*links, holder=2, container=container, root="module global train.last_traceback")
    assert cause_of(kept_by_program, Place(), "growing").slug == "exception-traceback"


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
