"""Leaks by the kind of loop and by when they leak: seldom, late, only in one phase, one tensor of every
size."""

from __future__ import annotations

import random

import torch
from torch import nn

from scenes.parts import BATCH, CLASSES, WIDTH, Classifier, batch, labels, train_step
from scenes.scene import FLOAT, Steps, leak

ROW = WIDTH * FLOAT
KIB = 1024


def new_trainer() -> tuple[Classifier, torch.optim.Optimizer]:
    """A model and its optimizer."""
    model = Classifier()
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


@leak(holder="kept", bytes_per_step=ROW / 10, blocks_per_step=0.1, steps=200, long_steps=400)
def every_tenth_step(steps: Steps) -> None:
    model, optimizer = new_trainer()
    kept = []
    for step in steps:
        train_step(model, optimizer)
        if step % 10 == 9:
            kept.append(torch.zeros(WIDTH))  # leaks


@leak(holder="kept", bytes_per_step=ROW / 50, blocks_per_step=0.02, steps=1000, long_steps=2000)
def once_an_epoch_of_fifty(steps: Steps) -> None:
    model, optimizer = new_trainer()
    kept = []
    for epoch in steps.epochs(50):
        for _ in epoch:
            train_step(model, optimizer)
        kept.append(model.hidden.bias.detach().clone())  # leaks


@leak(
    holder="kept", bytes_per_step=BATCH * CLASSES * FLOAT / 5, blocks_per_step=0.2, steps=200, long_steps=400
)
def only_in_evaluation(steps: Steps) -> None:
    model, optimizer = new_trainer()
    kept = []
    for epoch in steps.epochs(20):
        for _ in epoch:
            train_step(model, optimizer)
        with torch.no_grad():
            for _ in range(4):
                kept.append(model(batch()).softmax(1))  # leaks


@leak(
    holder="kept", bytes_per_step=ROW / 6, blocks_per_step=1 / 6, steps=405, long_steps=585, source="explicit"
)
def only_in_steps_of_validation(steps: Steps) -> None:
    import leakguard

    model, optimizer = new_trainer()
    kept = []
    for step in steps:
        if step % 60 < 50:
            train_step(model, optimizer)
        else:
            kept.append(torch.zeros(WIDTH))  # leaks
        leakguard.step()


@leak(holder="kept", bytes_per_step=ROW, blocks_per_step=1, steps=400, long_steps=400)
def from_the_middle_of_the_run(steps: Steps) -> None:
    model, optimizer = new_trainer()
    kept = []
    for step in steps:
        train_step(model, optimizer)
        if step >= steps.count // 2:
            kept.append(torch.zeros(WIDTH))  # leaks


@leak(holder="kept", bytes_per_step=ROW, blocks_per_step=1, steps=224, long_steps=224)
def twenty_leaking_steps_after_two_hundred(steps: Steps) -> None:
    model, optimizer = new_trainer()
    kept = []
    for step in steps:
        train_step(model, optimizer)
        if step >= steps.count - 20:
            kept.append(torch.zeros(WIDTH))  # leaks


@leak(holder="kept", bytes_per_step=None, blocks_per_step=0.3, tolerance=0.3, steps=120, long_steps=400)
def at_random(steps: Steps) -> None:
    model, optimizer = new_trainer()
    chance = random.Random(7)
    kept = []
    for _ in steps:
        train_step(model, optimizer)
        if chance.random() < 0.3:
            kept.append(torch.zeros(WIDTH))  # leaks


@leak(holder="kept", bytes_per_step=None, blocks_per_step=None, steps=205, long_steps=405)
def beside_a_buffer_that_is_emptied(steps: Steps) -> None:
    def value() -> torch.Tensor:
        return torch.zeros(WIDTH)  # leaks

    model, optimizer = new_trainer()
    kept = []
    for epoch in steps.epochs(25):
        buffer = []
        for _ in epoch:
            train_step(model, optimizer)
            buffer.append(value())
            kept.append(value())


@leak(holder="kept", bytes_per_step=ROW, blocks_per_step=1, steps=240, long_steps=400)
def line_that_filled_a_cache_before(steps: Steps) -> None:
    def row(value: float) -> torch.Tensor:
        return torch.full((WIDTH,), value)  # leaks

    model, optimizer = new_trainer()
    cache, kept = {}, []
    for step in steps:
        train_step(model, optimizer)
        if step < 12:
            cache[step] = row(step)
        if step >= steps.count * 2 // 3:
            kept.append(row(0.0))


@leak(holder="kept", bytes_per_step=512, blocks_per_step=1, steps=24)
def one_small_block(steps: Steps) -> None:
    model, optimizer = new_trainer()
    kept = []
    for _ in steps:
        train_step(model, optimizer)
        kept.append(torch.zeros(128))  # leaks


@leak(holder="kept", bytes_per_step=KIB * KIB, blocks_per_step=1, steps=24, long_steps=100)
def one_mebibyte(steps: Steps) -> None:
    model, optimizer = new_trainer()
    kept = []
    for _ in steps:
        train_step(model, optimizer)
        kept.append(torch.empty(KIB, KIB // FLOAT))  # leaks


@leak(holder="kept", bytes_per_step=3 * ROW, blocks_per_step=3, steps=24)
def three_lines_for_a_loop_in_the_step(steps: Steps) -> None:
    model, optimizer = new_trainer()
    kept = []
    for _ in steps:
        train_step(model, optimizer)
        kept.extend(torch.full((WIDTH,), float(k)) for k in range(3))  # leaks


@leak(holder="kept", bytes_per_step=None, blocks_per_step=1, steps=60)
def sizes_that_vary(steps: Steps) -> None:
    model, optimizer = new_trainer()
    kept = []
    for step in steps:
        train_step(model, optimizer)
        kept.append(torch.zeros(1 + (step * 37) % 211))  # leaks


@leak(holder="kept", bytes_per_step=ROW / 2, blocks_per_step=0.5, steps=120)
def half_of_it_is_let_go(steps: Steps) -> None:
    model, optimizer = new_trainer()
    kept: list[torch.Tensor] = []
    for step in steps:
        train_step(model, optimizer)
        kept.append(torch.zeros(WIDTH))  # leaks
        if step % 20 == 19:
            del kept[-10:]


@leak(holder="gallery", bytes_per_step=BATCH * ROW, blocks_per_step=1)
def gan_keeps_its_fakes(steps: Steps) -> None:
    generator, judge = nn.Linear(CLASSES, WIDTH), nn.Linear(WIDTH, 1)
    for_generator = torch.optim.Adam(generator.parameters())
    for_judge = torch.optim.Adam(judge.parameters())
    gallery = []
    for _ in steps:
        fakes = generator(torch.randn(BATCH, CLASSES))  # leaks
        for_judge.zero_grad()
        (judge(fakes.detach()).mean() - judge(batch()).mean()).backward()
        for_judge.step()
        for_generator.zero_grad()
        (-judge(fakes).mean()).backward()
        for_generator.step()
        gallery.append(fakes.detach())


@leak(holder="values", bytes_per_step=BATCH * FLOAT, blocks_per_step=1, needs="values")
def rollout_values_kept(steps: Steps) -> None:
    actor, critic = Classifier(), nn.Linear(WIDTH, 1)
    for_actor = torch.optim.Adam(actor.parameters())
    for_critic = torch.optim.Adam(critic.parameters())
    log: dict[str, list[torch.Tensor]] = {"values": []}
    for _ in steps:
        observed = batch()
        values = critic(observed).squeeze(1)
        policy = torch.distributions.Categorical(logits=actor(observed))
        advantage = torch.randn(BATCH) - values.detach()
        for_actor.zero_grad()
        (-(policy.log_prob(policy.sample()) * advantage)).mean().backward()
        for_actor.step()
        for_critic.zero_grad()
        values.square().mean().backward()
        for_critic.step()
        log["values"].append(values.detach().exp())  # leaks


@leak(holder="losses", bytes_per_step=FLOAT, blocks_per_step=1)
def lbfgs_losses_kept(steps: Steps) -> None:
    model = nn.Linear(WIDTH, CLASSES)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3, history_size=5, lr=0.01)
    inputs, answers = batch(), labels()
    losses = []

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), answers)
        loss.backward()
        return loss

    for _ in steps:
        optimizer.step(closure)
        losses.append(closure().detach() * 1.0)  # leaks


@leak(
    holder="answers",
    bytes_per_step=BATCH * CLASSES * FLOAT,
    blocks_per_step=1,
    source="forward",
    count=lambda n: n - 1,
)
def inference_outputs_kept(steps: Steps) -> None:
    model = Classifier().eval()
    answers = []
    with torch.inference_mode():
        for _ in steps:
            answers.append(model(batch()).exp())  # leaks


@leak(
    holder="kept",
    bytes_per_step=2 * BATCH * CLASSES * FLOAT,
    blocks_per_step=2,
    steps=96,
    count=lambda n: n // 4,
)
def micro_batches_kept_with_accumulation(steps: Steps) -> None:
    model, optimizer = new_trainer()
    kept = []
    for step in steps:
        logits = model(batch())
        (nn.functional.cross_entropy(logits, labels()) / 4).backward()
        if step % 2:
            kept.append(logits.detach().exp())  # leaks
        if step % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


@leak(holder="velocity", bytes_per_step=ROW, blocks_per_step=1, source="backward")
def own_update_rule(steps: Steps) -> None:
    weight = torch.randn(WIDTH, requires_grad=True)
    velocity = []
    for _ in steps:
        (weight * torch.ones(WIDTH)).square().sum().backward()
        assert weight.grad is not None
        velocity.append(weight.grad * 0.9)  # leaks
        with torch.no_grad():
            weight -= 0.1 * weight.grad
        weight.grad = None
