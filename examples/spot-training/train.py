"""Trains a small CNN to classify generated pictures, and survives interruptions.

The result does not depend on interruptions: the complete training state is in the checkpoint, so the last
line, a checksum of the weights, is the same however often the run was stopped or killed.
"""

from __future__ import annotations

import hashlib
import os

import torch
from torch import nn

from bursar.sdk import checkpointing
from bursar.sdk.adapters.elastic import SampleOrder
from bursar.sdk.adapters.pytorch import TrainingState

SAMPLES, SIDE, CLASSES, STEP_SAMPLES = 2_048, 16, 4, 32


def pictures() -> tuple[torch.Tensor, torch.Tensor]:
    """Stripes in four directions under noise; the same on every machine."""
    chance = torch.Generator().manual_seed(7)
    labels = torch.randint(CLASSES, (SAMPLES,), generator=chance)
    angle = labels.double() * torch.pi / CLASSES
    phase = torch.rand(SAMPLES, generator=chance, dtype=torch.double) * 2 * torch.pi
    rows, columns = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    across = torch.cos(angle)[:, None, None] * rows + torch.sin(angle)[:, None, None] * columns
    stripes = torch.sin(across * 1.3 + phase[:, None, None]).float()
    noise = torch.randn(SAMPLES, SIDE, SIDE, generator=chance)
    return (stripes + 0.8 * noise).unsqueeze(1), labels


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, padding=2),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(256, CLASSES),
    )


def checksum(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.cpu().numpy().tobytes())
    return digest.hexdigest()


def train(location: str, steps: int, save_every: int) -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    inputs, labels = pictures()
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    order = SampleOrder(SAMPLES, seed=1)
    state = TrainingState(model=model, optimizer=optimizer, scheduler=scheduler, order=order)
    loss_of = nn.CrossEntropyLoss()
    with checkpointing(location, keep=3) as run:
        step = state.resume(run)
        print(f"resuming from step {step}" if step else "starting", flush=True)
        while step < steps:
            for batch in order.upcoming(STEP_SAMPLES):
                optimizer.zero_grad()
                loss = loss_of(model(inputs[batch]), labels[batch])
                loss.backward()
                optimizer.step()
                scheduler.step()
                order.advance(STEP_SAMPLES)
                step += 1
                run.progress(step, steps)
                if step % save_every == 0 or step == steps or run.should_stop:
                    state.save(run, step)
                    print(f"saved step {step}: loss {loss.item():.4f}", flush=True)
                if step == steps:
                    break
    model.eval()
    with torch.no_grad():
        accuracy = (model(inputs).argmax(1) == labels).float().mean().item()
    print(f"done after {step} steps: accuracy {accuracy:.1%}")
    print(f"weights {checksum(model)}")


if __name__ == "__main__":
    job = os.environ.get("BURSAR_JOB_ID", "by-hand")
    train(
        f"{os.environ.get('CHECKPOINT_DIR', 'checkpoints')}/{job}",
        steps=int(os.environ.get("STEPS", "400")),
        save_every=int(os.environ.get("SAVE_EVERY", "20")),
    )
