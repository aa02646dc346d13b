"""Loops with what real training adds: evaluation, averages, checkpoints, profilers, loaders, compilers,
ranks."""

from __future__ import annotations

import copy
import gc
import io
import os
import queue
import tempfile
import threading
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from scenes.parts import BATCH, CLASSES, WIDTH, Classifier, batch, labels, train_step
from scenes.scene import Steps, clean


def new_trainer(lr: float = 0.1) -> tuple[Classifier, torch.optim.Optimizer]:
    """A model and its optimizer."""
    model = Classifier()
    return model, torch.optim.SGD(model.parameters(), lr=lr)


class Endless(IterableDataset[torch.Tensor]):
    """A stream of samples."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        while True:
            yield torch.randn(WIDTH)


@clean(steps=80)
def evaluation_phases(steps: Steps) -> None:
    model, optimizer = new_trainer()
    for epoch in steps.epochs(16):
        for _ in epoch:
            train_step(model, optimizer)
        model.eval()
        with torch.no_grad():
            outputs = torch.cat([model(batch()) for _ in range(10)])
            assert 0 <= float((outputs.argmax(1) == labels(len(outputs))).float().mean()) <= 1
        model.train()


@clean()
def evaluation_with_gradients_on_but_nothing_kept(steps: Steps) -> None:
    model, optimizer = new_trainer()
    worst = 0.0
    for _ in steps:
        train_step(model, optimizer)
        worst = max(worst, F.cross_entropy(model(batch()), labels()).item())


@clean()
def moving_average_of_weights(steps: Steps) -> None:
    model, optimizer = new_trainer()
    average = copy.deepcopy(model)
    for _ in steps:
        train_step(model, optimizer)
        with torch.no_grad():
            for ours, theirs in zip(average.parameters(), model.parameters(), strict=True):
                ours.lerp_(theirs, 0.01)


@clean()
def moving_average_in_new_tensors(steps: Steps) -> None:
    model, optimizer = new_trainer()
    average = {name: value.clone() for name, value in model.state_dict().items()}
    for _ in steps:
        train_step(model, optimizer)
        average = {name: 0.9 * average[name] + 0.1 * value for name, value in model.state_dict().items()}


@clean(steps=80)
def stochastic_weight_averaging(steps: Steps) -> None:
    model, optimizer = new_trainer()
    averaged = torch.optim.swa_utils.AveragedModel(model)
    schedule = torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.05)
    for step in steps:
        train_step(model, optimizer)
        if step > steps.count // 2:
            averaged.update_parameters(model)
            schedule.step()


@clean()
def warm_up_and_cosine_schedule(steps: Steps) -> None:
    model, optimizer = new_trainer()
    warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=10)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm_up, cosine], [10])
    for _ in steps:
        train_step(model, optimizer)
        schedule.step()


@clean()
def best_state_kept(steps: Steps) -> None:
    model, optimizer = new_trainer()
    best, least = {}, float("inf")
    for _ in steps:
        loss = train_step(model, optimizer).item()
        if loss < least:
            least, best = loss, {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(best)


@clean()
def checkpoints_saved(steps: Steps) -> None:
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters())
    for step in steps:
        train_step(model, optimizer)
        if step % 5 == 4:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, io.BytesIO())


@clean()
def checkpoints_loaded(steps: Steps) -> None:
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters())
    for step in steps:
        train_step(model, optimizer)
        if step % 8 == 7:
            file = io.BytesIO()
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
            file.seek(0)
            state = torch.load(file)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])


@clean(steps=80)
def learning_rate_finder(steps: Steps) -> None:
    model, optimizer = new_trainer(1e-4)
    start = copy.deepcopy(model.state_dict())
    curve = []
    for step in steps:
        curve.append((optimizer.param_groups[0]["lr"], train_step(model, optimizer).item()))
        optimizer.param_groups[0]["lr"] *= 1.1
        if step == steps.count // 2:
            model.load_state_dict(start)


@clean(steps=30)
def profiler_on(steps: Steps) -> None:
    model, optimizer = new_trainer()
    schedule = torch.profiler.schedule(wait=2, warmup=1, active=3, repeat=2)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, schedule=schedule, profile_memory=True) as profiler:
        for _ in steps:
            train_step(model, optimizer)
            profiler.step()


@clean()
def metrics_with_item(steps: Steps) -> None:
    model, optimizer = new_trainer()
    right, seen = 0, 0
    for _ in steps:
        optimizer.zero_grad()
        answers = labels()
        logits = model(batch())
        F.cross_entropy(logits, answers).backward()
        optimizer.step()
        right += int((logits.argmax(1) == answers).sum())
        seen += len(answers)
    assert 0 <= right <= seen


@clean()
def confusion_matrix_in_place(steps: Steps) -> None:
    model, optimizer = new_trainer()
    matrix = torch.zeros(CLASSES, CLASSES)
    for _ in steps:
        train_step(model, optimizer)
        with torch.no_grad():
            guessed = model(batch()).argmax(1)
            matrix.index_put_((labels(), guessed), torch.ones(()), accumulate=True)


@clean(needs="cpu")
def batches_from_a_loader(steps: Steps) -> None:
    model, optimizer = new_trainer()
    data = TensorDataset(torch.randn(64, WIDTH), torch.randint(0, CLASSES, (64,)))
    loader = DataLoader(data, batch_size=BATCH, shuffle=True)
    batches = iter(loader)
    for _ in steps:
        try:
            inputs, answers = next(batches)
        except StopIteration:
            batches = iter(loader)
            inputs, answers = next(batches)
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), answers).backward()
        optimizer.step()


@clean(needs="cpu")
def batches_from_worker_processes(steps: Steps) -> None:
    model, optimizer = new_trainer()
    loader = DataLoader(Endless(), batch_size=BATCH, num_workers=1, multiprocessing_context="fork")
    for _, inputs in zip(steps, loader, strict=False):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()


@clean(needs="cpu")
def batches_fetched_by_a_thread(steps: Steps) -> None:
    ready: queue.Queue[torch.Tensor] = queue.Queue(maxsize=2)
    ending = threading.Event()

    def fetch() -> None:
        while not ending.is_set():
            try:
                ready.put(batch(), timeout=0.05)
            except queue.Full:
                continue

    fetcher = threading.Thread(target=fetch)
    fetcher.start()
    try:
        model, optimizer = new_trainer()
        for _ in steps:
            optimizer.zero_grad()
            model(ready.get()).square().mean().backward()
            optimizer.step()
    finally:
        ending.set()
        fetcher.join()


@clean()
def mixed_precision_with_a_scaler(steps: Steps) -> None:
    model, optimizer = new_trainer()
    scaler = torch.amp.GradScaler("cpu")
    for _ in steps:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(batch()), labels())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


@clean()
def activations_recomputed(steps: Steps) -> None:
    from torch.utils.checkpoint import checkpoint

    layers = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(3))
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
    for _ in steps:
        hidden = batch().requires_grad_()
        for layer in layers:
            hidden = checkpoint(layer, hidden, use_reentrant=False)
        optimizer.zero_grad()
        hidden.square().mean().backward()
        optimizer.step()


@clean()
def hooks_that_keep_the_latest(steps: Steps) -> None:
    model, optimizer = new_trainer()
    latest: dict[str, torch.Tensor] = {}
    model.hidden.register_forward_hook(
        lambda module, inputs, output: latest.update(hidden=output.detach().abs())
    )
    for _ in steps:
        train_step(model, optimizer)
    assert "hidden" in latest


@clean()
def features_taken_with_a_hook_and_cleared(steps: Steps) -> None:
    model, optimizer = new_trainer()
    features: list[torch.Tensor] = []
    model.hidden.register_forward_hook(lambda module, inputs, output: features.append(output))
    for _ in steps:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch()), labels()) + features[0].square().mean()
        loss.backward()
        optimizer.step()
        features.clear()


@clean()
def steps_that_fail_now_and_then(steps: Steps) -> None:
    model, optimizer = new_trainer()
    failed = 0
    for step in steps:
        try:
            if step % 5 == 3:
                model(batch(width=WIDTH + 1))
        except RuntimeError:
            failed += 1
        train_step(model, optimizer)
    assert failed > 0


@clean(steps=60)
def cycles_that_are_collected_by_hand(steps: Steps) -> None:
    class Node:
        def __init__(self) -> None:
            self.me = self
            self.values = torch.zeros(WIDTH)

    model, optimizer = new_trainer()
    for step in steps:
        Node()
        train_step(model, optimizer)
        if step % 10 == 9:
            gc.collect()


@clean()
def distillation_from_a_frozen_teacher(steps: Steps) -> None:
    teacher = Classifier().eval().requires_grad_(False)
    model, optimizer = new_trainer()
    for _ in steps:
        inputs = batch()
        optimizer.zero_grad()
        F.kl_div(model(inputs).log_softmax(1), teacher(inputs).softmax(1), reduction="batchmean").backward()
        optimizer.step()


@clean(steps=40)
def compiled_with_recompiles(steps: Steps) -> None:
    model, optimizer = new_trainer()
    compiled = torch.compile(model, backend="eager", dynamic=False)
    for step in steps:
        optimizer.zero_grad()
        rows = 4 + step % 6
        F.cross_entropy(compiled(batch(rows)), labels(rows)).backward()
        optimizer.step()


@clean(steps=40)
def data_parallel_in_one_process(steps: Steps) -> None:
    from torch import distributed

    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=0, world_size=1)
        try:
            model = nn.parallel.DistributedDataParallel(Classifier())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in steps:
                train_step(model, optimizer)
        finally:
            distributed.destroy_process_group()
