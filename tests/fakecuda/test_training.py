"""Models train on the fake; memory levels off as it would on a device."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

pytestmark = pytest.mark.usefixtures("device")
MIB = 1 << 20


def train(model, make_input, steps=3, optimizer=torch.optim.AdamW):
    """A few steps; allocated bytes after each must level off."""
    optimizer = optimizer(model.parameters(), lr=1e-3)
    levels = []
    for _ in range(steps):
        optimizer.zero_grad()
        output = model(make_input())
        output = output[0] if isinstance(output, tuple) else output
        loss = output.float().square().mean()
        loss.backward()
        optimizer.step()
        assert loss.item() == 0.0
        del output, loss
        levels.append(torch.cuda.memory_allocated())
    assert levels[1:] == levels[1:2] * (steps - 1), levels


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_mlp(dtype):
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 8)).cuda().to(dtype)
    train(model, lambda: torch.randn(32, 64, device="cuda", dtype=dtype))


@pytest.mark.parametrize("options", [{}, {"fused": True}, {"capturable": True}, {"foreach": False}])
def test_adam(options):
    train(
        nn.Linear(64, 64).cuda(),
        lambda: torch.randn(8, 64, device="cuda"),
        optimizer=lambda parameters, lr: torch.optim.AdamW(parameters, lr=lr, **options),
    )


def test_language_model():
    model = nn.Sequential(nn.Embedding(1000, 64), nn.LayerNorm(64), nn.Linear(64, 1000)).cuda()
    tokens = torch.randint(1000, (4, 16)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    assert loss.item() == 0.0


def test_transformer():
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).cuda()
    train(model, lambda: torch.randn(2, 16, 64, device="cuda"))


@pytest.mark.parametrize("backend", ["FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH"])
def test_attention(backend):
    q = torch.randn(2, 4, 32, 64, device="cuda", dtype=torch.float16, requires_grad=True)
    with nn.attention.sdpa_kernel(getattr(nn.attention.SDPBackend, backend)):
        F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    assert q.grad.shape == q.shape


def test_convolution_without_cudnn():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2),
    ).cuda()  # fmt: skip
    train(model, lambda: torch.randn(2, 3, 16, 16, device="cuda"))
    assert not torch.backends.cudnn.enabled


@pytest.mark.parametrize("recurrent", [nn.LSTM, nn.GRU])
def test_recurrent(recurrent):
    train(
        recurrent(32, 64, num_layers=2, batch_first=True).cuda(),
        lambda: torch.randn(2, 8, 32, device="cuda"),
    )


def test_autocast_and_grad_scaler():
    model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.Linear(64, 4)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(4):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(torch.randn(8, 64, device="cuda")).float().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()


def test_activations_live_until_backward():
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(4))).cuda()
    model(torch.randn(512, 512, device="cuda")).sum().backward()
    before = torch.cuda.memory_allocated()
    loss = model(torch.randn(512, 512, device="cuda")).sum()
    assert torch.cuda.memory_allocated() - before >= 4 * MIB
    loss.backward()
    del loss
    assert torch.cuda.memory_allocated() == before


def test_data_loader_with_pinned_memory():
    data = torch.utils.data.TensorDataset(torch.arange(64.0).reshape(16, 4))
    loader = torch.utils.data.DataLoader(data, 4, pin_memory=True, num_workers=2)
    total = 0
    for (batch,) in loader:
        assert batch.is_pinned()
        total += batch.cuda(non_blocking=True).cpu().sum().item()
    assert total == 64 * 63 / 2


def test_assorted_operators():
    x = torch.randn(128, 128, device="cuda")
    i = torch.randint(128, (64,), device="cuda")
    x[i] = 0
    for operator in (torch.sort, torch.unique, torch.tril, torch.std, torch.logsumexp):
        operator(x, 0) if operator is torch.logsumexp else operator(x)
    x.topk(3), x.cumsum(0), x.softmax(-1), x.T.contiguous(), x.index_select(0, i)
    x @ x, x.half() @ x.half(), x.double() @ x.double(), torch.bmm(x[None], x[None])
    torch.einsum("ij,kj->ik", x, x), torch.cat([x, x]), torch.stack([x, x])
    F.dropout(x), F.one_hot(i, 128), F.interpolate(x[None, None], scale_factor=2)
    torch.randperm(100, device="cuda"), torch.multinomial(x.abs() + 1, 3)
    torch.cuda.synchronize()
    repr(x)
