"""The functions of a fine-tuning script, as text: `peft_script.py` picks those that a plan needs.

Nothing is filled in here: they read the constants that stand at the script's head. What runs is
what was simulated (`gpuscope.program.models.building.tuning`).
"""

from __future__ import annotations

__all__ = [
    "ADAPTED",
    "EXAMPLES",
    "LOAD",
    "LOCAL_OPTIMIZER",
    "MAIN",
    "OPTIMIZER",
    "QUANTISED",
    "ROWS",
    "SAVE",
    "SHARED",
    "STEP",
]

LOAD = '''
def load(path):
    """The model in bfloat16: yours, or one of its shape with random weights."""
    how = {"dtype": torch.bfloat16, "attn_implementation": ATTENTION}
    if path:
        return AutoModelForCausalLM.from_pretrained(path, device_map={"": HOME}, **how)
    register = nn.Module.register_parameter

    def without_memory(module, name, parameter):
        register(module, name, None if parameter is None else nn.Parameter(parameter.to("meta")))

    nn.Module.register_parameter = without_memory
    try:
        model = AutoModelForCausalLM.from_config(CONFIG, **how)
    finally:
        nn.Module.register_parameter = register
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            drawn = torch.empty(parameter.shape, dtype=parameter.dtype, device=DEVICE)
            drawn = drawn.normal_(std=0.02) if drawn.ndim > 1 else drawn.fill_(name == "weight")
            setattr(module, name, nn.Parameter(drawn.to(HOME)))
    model.tie_weights()
    return model.to(HOME)
'''

QUANTISED = '''
def quantised(model):
    """Its linear layers but the output in NF4 with double quantisation, one after another."""
    kind = {{"compress_statistics": True, "quant_type": "nf4", "quant_storage": {storage}}}
    for name, module in list(model.named_modules()):
        if type(module) is not nn.Linear or module is model.get_output_embeddings():
            continue
        packed = bnb.nn.Linear4bit(
            module.in_features,
            module.out_features,
            bias=module.bias is not None,
            compute_dtype=torch.bfloat16,
            device="meta",
            **kind,
        )
        weight = bnb.nn.Params4bit(module.weight.data, requires_grad=False, module=packed, **kind)
        packed.weight, packed.bias = weight.to(DEVICE){back}, module.bias
        model.set_submodule(name, packed)
    model.is_loaded_in_4bit = True
    return model{home}
'''
"""With braces doubled: how bytes are stored, where weights and the rest go then."""

ADAPTED = '''
def adapted(model):
    """What was there is frozen; adapters learn beside it."""
    adapters = LoraConfig(
        r=RANK, lora_alpha=2 * RANK, target_modules=TARGETS, task_type="CAUSAL_LM"
    )
    return get_peft_model(model, adapters, autocast_adapter_dtype={wide})
'''

SHARED = '''
def shared(model, mesh):
    """Every block is gathered, and its gradients are summed, by itself."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in next(m for m in model.modules() if isinstance(m, nn.ModuleList)):
        fully_shard(block, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)
'''

OPTIMIZER = '''
def optimizer_of(model):
    """What updates all that learns; the rate is yours to choose."""
    return {optimizer}([p for p in model.parameters() if p.requires_grad], lr=RATE)
'''

LOCAL_OPTIMIZER = '''
class Local:
    """bitsandbytes' optimizer of what this rank holds: it knows no shared tensors."""

    def __init__(self, trained):
        self.shared = [p for p in trained if p.to_local().numel()]
        self.held = [nn.Parameter(p.detach().to_local()) for p in self.shared]
        self.inner = {optimizer}(self.held, lr=RATE)

    def zero_grad(self, set_to_none=True):
        """Before the first micro-batch."""
        for parameter in self.shared:
            parameter.grad = None

    def step(self):
        """The update, in place."""
        for parameter, held in zip(self.shared, self.held, strict=True):
            held.data, held.grad = parameter.detach().to_local(), parameter.grad.to_local()
        self.inner.step()


def optimizer_of(model):
    """What updates all that learns; the rate is yours to choose."""
    return Local([p for p in model.parameters() if p.requires_grad])
'''

EXAMPLES = '''
def examples(path, model, vocabulary):
    """Your own data go here: tokens of one example after another, without end."""
    random.seed(0)
    drawn = torch.Generator().manual_seed(0)
    if not path:
        while True:
            shape = (random.choice(LENGTHS),)
            yield torch.randint(0, vocabulary, shape, generator=drawn).tolist()
    tokenizer = AutoTokenizer.from_pretrained(model)
    with open(path, encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file if line.strip()]
    known = [tokenizer(text)["input_ids"] + [tokenizer.eos_token_id] for text in texts]
    while True:
        random.shuffle(known)
        yield from known
'''

_PACKED = '''
def rows(found):
    """Rows of whole examples: each, the longest first, where it leaves least room."""
    while True:
        packed = []
        pool = [each[:SEQ] for each in itertools.islice(found, 1000)]
        for each in sorted(pool, key=len, reverse=True):
            fitting = [row for row in packed if sum(map(len, row)) + len(each) <= SEQ]
            if fitting:
                max(fitting, key=lambda row: sum(map(len, row))).append(each)
            else:
                packed.append([each])
        random.shuffle(packed)
        yield from packed

'''

ROWS = {
    "none": '''
def rows(found):
    """Rows that are full: texts one after the other, cut."""
    left = []
    for each in found:
        left += each
        while len(left) >= SEQ:
            yield left[:SEQ]
            left = left[SEQ:]


def batch(taken):
    """What the model is given."""
    tokens = torch.tensor(taken)
    return {"input_ids": tokens, "labels": tokens}
''',
    "padded": '''
def rows(found):
    """A row an example."""
    return (each[:SEQ] for each in found)


def batch(taken):
    """What the model is given: rows as long as the longest of them."""
    ends = torch.tensor([len(each) for each in taken])
    tokens = nn.utils.rnn.pad_sequence([torch.tensor(each) for each in taken], batch_first=True)
    seen = torch.arange(tokens.shape[1]) < ends[:, None]
    given = {"input_ids": tokens, "labels": tokens.masked_fill(~seen, -100)}
    return given | ({"attention_mask": seen.long()} if len(taken) > 1 else {})
''',
    "flash": _PACKED
    + '''
def batch(taken):
    """What the model is given: all rows one after the other, and where each example ends."""
    collate = DataCollatorWithFlattening(return_flash_attn_kwargs=True)
    return dict(collate([{"input_ids": each} for row in taken for each in row]))
''',
    "mask": _PACKED
    + '''
def batch(taken):
    """What the model is given: positions start anew with each example, and so does attention."""
    tokens = torch.zeros(len(taken), SEQ, dtype=torch.long)
    labels, places = torch.full_like(tokens, -100), torch.arange(SEQ).repeat(len(taken), 1)
    for number, row in enumerate(taken):
        start = 0
        for each in row:
            end = start + len(each)
            tokens[number, start:end] = torch.tensor(each)
            labels[number, start + 1 : end] = tokens[number, start + 1 : end]
            places[number, start:] = torch.arange(SEQ - start)
            start = end
        places[number, start:] = torch.arange(SEQ - start)  # what is left over sees itself alone
    return {"input_ids": tokens, "labels": labels, "position_ids": places}
''',
}
"""By how examples lie in rows."""

STEP = '''
def step(model, optimizer, batches):
    """All micro-batches forward and backward, then the update; the mean of their losses."""
    optimizer.zero_grad(set_to_none=True)
    total = 0.0
    for {each} in {batches}:
{passes}
        total += loss.detach()
    optimizer.step()
    return total
'''

SAVE = {
    True: '''
def save(model, folder):
    """All that learns, gathered by every rank, written by the first."""
    whole = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            tensor = parameter.detach().full_tensor()
            if PLACE == 0:
                whole[name] = tensor.cpu()
    if PLACE == 0:
        model.save_pretrained(folder, state_dict=whole)
''',
    False: '''
def save(model, folder):
    """All that learns, written by the first rank."""
    if PLACE == 0:
        getattr(model, "module", model).save_pretrained(folder)
''',
}
"""By whether tensors are shared over ranks."""

MAIN = '''
def asked(given):
    """What is typed behind the script's name."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", help="your weights: a folder, or their name on the hub")
    parser.add_argument("--data", help='a file of JSON lines with "text"; without: random tokens')
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--save", help="a folder for what was learnt")
    found = parser.parse_args(given)
    if found.data and not found.model:
        parser.error("--data needs --model, whose tokenizer reads it")
    return found


def main(given=None):
    """Each step is timed to the end of its work on the device."""
    args = asked(given)
    torch.manual_seed(0)
{made}    optimizer = optimizer_of(model)
    found = rows(examples(args.data, args.model, vocabulary))
    mine = itertools.islice(found, PLACE, None, PLACES)
    for number in range(args.steps):
        count = int((number + 1) * PASSES) - int(number * PASSES)
        taken = [batch(list(itertools.islice(mine, MICROBATCH))) for _ in range(count)]
        batches = [
            {{k: v.to(DEVICE) if torch.is_tensor(v) else v for k, v in each.items()}}
            for each in taken
        ]
        begun = time.perf_counter()
        loss = step(model, optimizer, batches).item()
        peak = 0
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()
            peak = torch.cuda.max_memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        if PLACE == 0:
            took = time.perf_counter() - begun
            print(f"step {{number}}: loss {{loss:.4f}}, {{took * 1e3:.2f}} ms, peak {{peak}} bytes")
    if args.save:
        save(model, args.save)
{end}

if __name__ == "__main__":
    main()
'''
