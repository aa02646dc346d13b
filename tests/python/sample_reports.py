"""Reports as a real run might make them, for the tests of everything that reads one."""

from __future__ import annotations

from dataclasses import replace

from leakguard.report import (
    Advice,
    DeviceUsage,
    Example,
    Finding,
    Link,
    Lost,
    Overhead,
    Place,
    Report,
    Steps,
    unwatched,
)

PROJECT = "/home/user/project"
TRAIN = f"{PROJECT}/train.py"
TORCH = "/opt/venv/lib/python3.11/site-packages/torch"
MIB = 2**20

HISTORY = Finding(
    fingerprint="9f31c0a2",
    verdict="growing",
    cause="attached-output-list",
    title="cuda:0 grows 1.50 MiB a step, steadily since step 3 (38 of 40 steps)",
    why="module global train.history (list, 38 items) keeps every step's output and its autograd graph",
    fix="append logits.detach().cpu() instead, or keep only the last N",
    device="cuda:0",
    bytes=38 * 3 * MIB // 2,
    blocks=38,
    bytes_per_step=1.5 * MIB,
    blocks_per_step=1.0,
    first_step=3,
    last_step=40,
    category="activation",
    allocated_at=Place(
        file=TRAIN,
        line=41,
        function="Net.forward",
        expression="F.relu(self.fc1(x))",
        module="encoder.fc1",
        phase="forward",
        via=f"{TORCH}/nn/functional.py:1716 in relu",
    ),
    root="module global __main__.history",
    retained_by=(
        Link(edge="module global", name="history", type="list, 38 items (+1 a step)", file=TRAIN, line=12),
        Link(edge="item", type="Tensor [64, 10], requires grad"),
        Link(edge="grad_fn", type="AddmmBackward0"),
        Link(edge="saved tensor", name="mat1", type="Tensor [64, 6144] float32"),
    ),
    retained_bytes=57 * MIB,
    example=Example(shape=(64, 6144), dtype="float32"),
)

NO_HOLDER = replace(HISTORY, root="", retained_by=(), retained_bytes=0, fix=None, cause="unknown")

TOTAL = Finding(
    fingerprint="41d0b7e5",
    verdict="growing",
    cause="attached-loss-total",
    title="host grows 5.12 KiB a step: a chain of autograd nodes, 3 longer with every step",
    why="local 'total' in main() adds up losses that carry their graphs",
    fix="add loss.item(), or loss.detach() to stay on the device",
    device="host",
    bytes=40 * 5243,
    blocks=120,
    bytes_per_step=5243.0,
    blocks_per_step=3.0,
    first_step=1,
    last_step=40,
    category="autograd_detail",
    allocated_at=Place(file=TRAIN, line=57, function="main", expression="total + loss", op="AddBackward0"),
    also_born_at=tuple(
        Place(file=TRAIN, line=line, function="Net.loss", expression=f"weight[{line}] * loss")
        for line in range(61, 66)
    ),
    root="local 'total' in main() at train.py:57",
    retained_by=(
        Link(edge="local", name="total", type="Tensor [], requires grad", file=TRAIN, line=57),
        *[Link(edge="grad_fn", type="AddBackward0")] * 40,
        Link(edge="next function", type="MseLossBackward0"),
    ),
    retained_bytes=40 * 5243,
)

CYCLE = Finding(
    fingerprint="c0ffee11",
    verdict="waiting-for-gc",
    cause="self-reference",
    title="cpu holds 12.0 MiB in cycles that only the collector can free",
    why="each Session refers to itself through the callback it has registered",
    fix="register a weakref.WeakMethod, or call session.close()",
    device="cpu",
    bytes=12 * MIB,
    blocks=6,
    first_step=9,
    last_step=38,
    category="input",
    allocated_at=Place(file=TRAIN, line=88, function="Session.__init__", expression="torch.empty(size)"),
    root="garbage cycle",
    retained_by=(
        Link(edge="attribute", name="callbacks", type="list, 1 item"),
        Link(edge="item", type="method Session.on_end"),
        Link(edge="attribute", name="__self__", type="Session"),
        Link(edge="attribute", name="buffer", type="Tensor [524288] float32"),
    ),
    retained_bytes=12 * MIB,
)

NATIVE = replace(
    NO_HOLDER,
    fingerprint="77aa0012",
    verdict="no-owner",
    title="cuda:0 grows 2.00 MiB a step, and no Python object holds it",
    why="a C++ extension keeps a reference that it never gives back",
    bytes=80 * MIB,
    blocks=40,
    bytes_per_step=2.0 * MIB,
    root="native reference",
    retained_by=(
        Link(edge="native", type="2 references from C++"),
        Link(edge="storage", type="Tensor [524288]"),
    ),
    retained_bytes=80 * MIB,
)

RESIDENT = Finding(
    fingerprint="0b5e55ed",
    verdict="by-design",
    cause="cublas-workspace",
    title="cuBLAS workspace, one for each stream",
    device="cuda:0",
    bytes=8519680,
    blocks=1,
)

REPLAY = Finding(
    fingerprint="5a5a0001",
    verdict="bounded",
    cause="deque-maxlen",
    title="replay buffer fills up to its 1000 items, 250 MiB in the end",
    why="deque(maxlen=1000) drops its oldest item from then on",
    device="cpu",
    bytes=10 * MIB,
    blocks=40,
    bytes_per_step=256.0 * 1024,
    blocks_per_step=1.0,
    root="attribute memory of local 'agent'",
    retained_by=(Link(edge="attribute", name="memory", type="deque, 40 of 1000 items"),),
    retained_bytes=10 * MIB,
)

CUDA = DeviceUsage(
    device="cuda:0",
    allocated_bytes=59768832,
    reserved_bytes=64 * MIB,
    peak_bytes=74658611,
    bytes_per_step=1.5 * MIB,
    fragmentation=0.12,
)
CPU = DeviceUsage(device="cpu", allocated_bytes=1200000, peak_bytes=1300000, bytes_per_step=0.0)

LEAK = Report(
    leakguard="0.1.0",
    torch="2.13.0+cpu",
    python="3.11.9",
    status="leak",
    why=HISTORY.why,
    next=HISTORY.fix or "",
    steps=Steps(count=40, warmup=2, source="optimizer"),
    devices=(CUDA, CPU),
    findings=(HISTORY,),
    overhead=Overhead(seconds=0.12, fraction=0.008, host_bytes=1258291),
)

CLEAN = replace(
    LEAK,
    status="clean",
    why="after warm-up every step gave back what it took",
    next="nothing to do",
    devices=(replace(CUDA, bytes_per_step=0.0), CPU),
    findings=(),
)

HOSTILE_NAME = "\x1b[31mred\x07\n[bold]x[/bold]\u202egnp.exe\udc80 :smile: 模型"

REPORTS = {
    "leak": LEAK,
    "no holder": replace(LEAK, findings=(NO_HOLDER,)),
    "several": replace(
        LEAK,
        why=NATIVE.why,
        next="update the extension that train.py:41 calls, or report it to its authors",
        devices=(replace(CUDA, outside_allocator_bytes=314572800), CPU, DeviceUsage(device="host")),
        findings=(NATIVE, HISTORY, TOTAL, CYCLE, REPLAY, RESIDENT),
        advice=(
            Advice(
                topic="mixed precision",
                text="autocast halves the activations of encoder",
                saves_bytes=48 * MIB,
            ),
            Advice(
                topic="empty_cache", text="it runs every step at train.py:61 and frees nothing that is live"
            ),
        ),
        lost=Lost(events=1, unknown_births=3, uncovered_devices=1, failures=2),
    ),
    "warning": replace(
        LEAK,
        status="warning",
        why=CYCLE.why,
        next=CYCLE.fix or "",
        devices=(CPU,),
        findings=(CYCLE, RESIDENT),
    ),
    "clean": CLEAN,
    "inconclusive": replace(
        CLEAN,
        status="inconclusive",
        why="only 3 steps after warm-up, and nothing is said before the 8th",
        next="train for at least 10 steps, or call leakguard.step() in a loop that has no optimizer",
        steps=Steps(count=5, warmup=2, source="optimizer"),
    ),
    "unwatched": replace(
        unwatched(
            "torch was never imported, so there was nothing to watch", "run a script that trains with torch"
        ),
        python="3.11.9",
        leakguard="0.1.0",
        torch="",
    ),
    "hostile": replace(
        LEAK,
        why=HOSTILE_NAME,
        next=HOSTILE_NAME,
        findings=(
            replace(
                HISTORY,
                title=HOSTILE_NAME,
                allocated_at=Place(
                    file=f"{PROJECT}/{HOSTILE_NAME}",
                    line=1,
                    function=HOSTILE_NAME,
                    expression=" + ".join(["f(x)"] * 150),
                ),
                root=f"module global {HOSTILE_NAME}",
                retained_by=(Link(edge="module global", name=HOSTILE_NAME, type=HOSTILE_NAME),),
            ),
        ),
    ),
}
