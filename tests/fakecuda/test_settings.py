"""What the environment sets up, each in a process of its own."""

from __future__ import annotations

import pytest


def test_two_devices(in_fresh_process):
    in_fresh_process(
        """
        assert torch.cuda.device_count() == 2
        a = torch.arange(100.).cuda(0)
        b = a.to("cuda:1")
        assert torch.equal(b.cpu(), a.cpu())
        assert torch.cuda.can_device_access_peer(0, 1)
        assert torch.cuda.memory_allocated(1) == torch.cuda.memory_allocated(0) == 512
        with torch.cuda.device(1):
            assert torch.empty(1, device="cuda").device.index == 1
        model = torch.nn.Linear(8, 8).to("cuda:1")
        model(torch.randn(4, 8, device="cuda:1")).sum().backward()
        """,
        FAKECUDA_DEVICES="2",
    )


@pytest.mark.parametrize("capability", ["7.5", "9.0", "10.0"])
def test_capabilities(in_fresh_process, capability):
    major, minor = capability.split(".")
    in_fresh_process(
        f"""
        assert torch.cuda.get_device_capability() == ({major}, {minor})
        for dtype in torch.float32, torch.bfloat16:
            layer = torch.nn.TransformerEncoderLayer(64, 4, 128).cuda().to(dtype)
            for _ in range(2):
                layer(torch.randn(8, 2, 64, device="cuda", dtype=dtype)).sum().backward()
        """,
        FAKECUDA_CAPABILITY=capability,
    )


def test_no_device(in_fresh_process):
    code = "assert not torch.cuda.is_available() and torch.cuda.device_count() == 0"
    in_fresh_process(code, FAKECUDA_DEVICES="0")


def test_exit_right_after_backward(in_fresh_process):
    """PyTorch's autograd threads must not abort an interpreter that ends."""
    code = "torch.nn.Linear(8, 8).cuda()(torch.randn(4, 8, device='cuda')).sum().backward()"
    for _ in range(4):
        in_fresh_process(code)
