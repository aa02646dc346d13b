"""Ordinary training loops of every kind, none of which leaks."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from scenes.parts import BATCH, CLASSES, WIDTH, Classifier, batch, labels, train_step
from scenes.scene import Steps, clean


def new_trainer() -> tuple[Classifier, torch.optim.Optimizer]:
    """A model and its optimizer."""
    model = Classifier()
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


class Language(nn.Module):
    """A recurrent model of token sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, WIDTH)
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 32)

    def forward(self, tokens: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = []
        for position in range(tokens.shape[1]):
            state = self.cell(self.embedding(tokens[:, position]), state)
            outputs.append(self.head(state))
        return torch.stack(outputs, 1), state


@clean()
def plain_sgd(steps: Steps) -> None:
    model, optimizer = new_trainer()
    for _ in steps:
        train_step(model, optimizer)


@clean()
def adam_with_lazy_state(steps: Steps) -> None:
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), amsgrad=True)
    for _ in steps:
        train_step(model, optimizer)


@clean()
def momentum_that_starts_late(steps: Steps) -> None:
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in steps:
        if step == steps.count // 3:
            optimizer.param_groups[0]["momentum"] = 0.9
        train_step(model, optimizer)


@clean()
def layers_unfrozen_one_by_one(steps: Steps) -> None:
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(5)), nn.Linear(WIDTH, CLASSES))
    for layer in model[:-1]:
        layer.requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters())
    for step in steps:
        if step % 10 == 9 and step // 10 < 5:
            model[4 - step // 10].requires_grad_(True)
        train_step(model, optimizer)


@clean()
def loss_as_a_float(steps: Steps) -> None:
    model, optimizer = new_trainer()
    history, total = [], 0.0
    for _ in steps:
        loss = train_step(model, optimizer)
        history.append(loss.item())
        total += float(loss)


@clean()
def losses_of_several_heads_summed(steps: Steps) -> None:
    body = nn.Linear(WIDTH, WIDTH)
    heads = nn.ModuleList(nn.Linear(WIDTH, CLASSES) for _ in range(4))
    optimizer = torch.optim.SGD([*body.parameters(), *heads.parameters()], lr=0.1)
    for _ in steps:
        shared = torch.relu(body(batch()))
        total = torch.zeros(())
        for head in heads:
            total = total + F.cross_entropy(head(shared), labels())
        optimizer.zero_grad()
        total.backward()
        optimizer.step()


@clean()
def running_mean_of_detached_losses(steps: Steps) -> None:
    model, optimizer = new_trainer()
    mean = torch.zeros(())
    for step in steps:
        loss = train_step(model, optimizer)
        mean = mean + (loss - mean) / (step + 1)


@clean(count=lambda n: n // 4)
def gradient_accumulation(steps: Steps) -> None:
    model, optimizer = new_trainer()
    for step in steps:
        (F.cross_entropy(model(batch()), labels()) / 4).backward()
        if step % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


@clean(needs="values")
def several_micro_batches_a_step(steps: Steps) -> None:
    model, optimizer = new_trainer()
    for _ in steps:
        optimizer.zero_grad()
        losses = []
        for _ in range(4):
            loss = F.cross_entropy(model(batch()), labels())
            losses.append(loss)
            (loss / 4).backward()
        optimizer.step()
        assert torch.stack(losses).mean() > 0


@clean(needs="values")
def gradients_clipped(steps: Steps) -> None:
    model, optimizer = new_trainer()
    norm = torch.zeros(())
    for _ in steps:
        optimizer.zero_grad()
        F.cross_entropy(model(batch()), labels()).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert norm > 0


@clean()
def truncated_backpropagation(steps: Steps) -> None:
    model = Language()
    optimizer = torch.optim.Adam(model.parameters())
    state = torch.zeros(4, WIDTH)
    for _ in steps:
        tokens = torch.randint(0, 32, (4, 6))
        logits, state = model(tokens, state)
        optimizer.zero_grad()
        F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
        state = state.detach()


@clean()
def gan(steps: Steps) -> None:
    generator, judge = nn.Linear(CLASSES, WIDTH), nn.Linear(WIDTH, 1)
    for_generator = torch.optim.Adam(generator.parameters())
    for_judge = torch.optim.Adam(judge.parameters())
    for _ in steps:
        fakes = generator(torch.randn(BATCH, CLASSES))
        for_judge.zero_grad()
        (F.softplus(judge(fakes.detach())) + F.softplus(-judge(batch()))).mean().backward()
        for_judge.step()
        for_generator.zero_grad()
        F.softplus(-judge(fakes)).mean().backward()
        for_generator.step()


@clean(count=lambda n: n // 5 + 5, steps=100, long_steps=500)  # at first the critic is alone
def wasserstein_gan(steps: Steps) -> None:
    generator, critic = nn.Linear(CLASSES, WIDTH), nn.Linear(WIDTH, 1)
    for_generator = torch.optim.RMSprop(generator.parameters())
    for_critic = torch.optim.RMSprop(critic.parameters())
    for step in steps:
        real, fakes = batch(), generator(torch.randn(BATCH, CLASSES))
        mixed = (0.5 * real + 0.5 * fakes.detach()).requires_grad_()
        (slope,) = torch.autograd.grad(torch.tanh(critic(mixed)).sum(), mixed, create_graph=True)
        for_critic.zero_grad()
        loss = critic(fakes.detach()).mean() - critic(real).mean() + (slope.norm(2, 1) - 1).square().mean()
        loss.backward()
        for_critic.step()
        if step % 5 == 4:
            for_generator.zero_grad()
            (-critic(fakes).mean()).backward()
            for_generator.step()


@clean(steps=60)
def lbfgs(steps: Steps) -> None:
    model = nn.Linear(WIDTH, CLASSES)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5, history_size=10, lr=0.1)
    for _ in steps:
        inputs, answers = batch(), labels()

        def closure(inputs: torch.Tensor = inputs, answers: torch.Tensor = answers) -> torch.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), answers)
            loss.backward()
            return loss

        optimizer.step(closure)


@clean(steps=160)
def lbfgs_with_a_long_history(steps: Steps) -> None:
    model = nn.Linear(WIDTH, CLASSES)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2, lr=0.1)
    inputs, answers = batch(), labels()

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), answers)
        loss.backward()
        return loss

    for _ in steps:
        optimizer.step(closure)


@clean(needs="values")
def actor_and_critic(steps: Steps) -> None:
    actor, critic = Classifier(), nn.Linear(WIDTH, 1)
    for_actor = torch.optim.Adam(actor.parameters())
    for_critic = torch.optim.Adam(critic.parameters())
    for _ in steps:
        log_probs, values, rewards = [], [], []
        state = batch(4)
        for _ in range(6):
            policy = torch.distributions.Categorical(logits=actor(state))
            action = policy.sample()
            log_probs.append(policy.log_prob(action))
            values.append(critic(state).squeeze(1))
            rewards.append(torch.rand(4))
            state = state.roll(1, 1) + action.unsqueeze(1)
        returns = torch.stack(rewards).flip(0).cumsum(0).flip(0)
        advantage = returns - torch.stack(values)
        for_actor.zero_grad()
        (-(torch.stack(log_probs) * advantage.detach())).mean().backward()
        for_actor.step()
        for_critic.zero_grad()
        advantage.square().mean().backward()
        for_critic.step()


@clean(steps=60, source="forward", count=lambda n: n - 1)
def inference_only(steps: Steps) -> None:
    model = Classifier().eval()
    seen = 0
    with torch.inference_mode():
        for _ in steps:
            seen += int(model(batch()).argmax(1).sum())


@clean(source="backward")
def own_update_rule_in_place(steps: Steps) -> None:
    weight = torch.randn(WIDTH, requires_grad=True)
    velocity = torch.zeros(WIDTH)
    for _ in steps:
        (weight * torch.ones(WIDTH)).square().sum().backward()
        assert weight.grad is not None
        velocity.mul_(0.9).add_(weight.grad)
        with torch.no_grad():
            weight.sub_(velocity, alpha=0.01)
        weight.grad = None


@clean()
def weight_decay_penalty_in_the_loss(steps: Steps) -> None:
    model, optimizer = new_trainer()
    for _ in steps:
        optimizer.zero_grad()
        penalty = sum((p.square().sum() for p in model.parameters()), torch.zeros(()))
        (F.cross_entropy(model(batch()), labels()) + 1e-4 * penalty).backward()
        optimizer.step()


@clean(steps=60)
def a_new_optimizer_for_each_step(steps: Steps) -> None:
    for _ in steps:
        model = nn.Linear(WIDTH, CLASSES)
        train_step(model, torch.optim.Adam(model.parameters()))


@clean()
def meta_learning_with_inner_steps(steps: Steps) -> None:
    weight = torch.randn(WIDTH, CLASSES, requires_grad=True)
    optimizer = torch.optim.Adam([weight])
    for _ in steps:
        inner = weight
        for _ in range(3):
            loss = F.cross_entropy(batch() @ inner, labels())
            (slope,) = torch.autograd.grad(loss, inner, create_graph=True)
            inner = inner - 0.1 * slope
        optimizer.zero_grad()
        F.cross_entropy(batch() @ inner, labels()).backward()
        optimizer.step()
