"""What programs of the fourth set share: a step of training."""

import torch


def fit(model, loss_of, dtype=torch.bfloat16, optimizer=None, scaled=False, clip=None, after=None):
    """A step of training by AdamW or the optimizer given; under autocast where a type is named.

    `scaled`: the loss is scaled, as float16 wants. `clip`: the gradient's greatest norm.
    `after`: called without gradients when the parameters have moved.
    """
    learnt = [p for p in model.parameters() if p.requires_grad]
    optimizer = optimizer or torch.optim.AdamW(learnt, lr=1e-4)
    scaler = torch.amp.GradScaler("cuda", enabled=scaled)

    def step():
        with torch.autocast("cuda", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            loss = loss_of()
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        if clip:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(learnt, clip)
        scaler.step(optimizer)
        scaler.update()
        if after:
            with torch.no_grad():
                after()
        return loss.detach()

    return step
