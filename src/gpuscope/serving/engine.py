"""Engine profiles: the defaults of a named version, each with where it is set in the TOML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files

from gpuscope.document.text import Text
from gpuscope.document.typed import typed
from gpuscope.errors import UnknownNameError
from gpuscope.outside.plain import toml_of

_FOLDER = files("gpuscope.serving") / "engines"


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine as it comes.

    Attributes:
        name, version: whose defaults these are.
        called: as people write it.
        scheduler: file of its policy.
        max_tokens, max_sequences, chunked, reserve, reserve_least, reserve_steps, reserve_ahead,
            sizes, delay_s: see `schedulers.Limits`.
        policies: that it can be set to, by the engine's own name, and their files.
        block_tokens: of keys and values.
        utilization: share of the memory that it takes, of what `share_of` says.
        share_of, window_share, state_share, counts_graphs: see `memory.Pools`.
        rank_router: which of the ranks that attend apart gets a request.
        ranks_share: their limits are parts of `max_tokens` and `max_sequences`.
        ranks_reserve: of `reserve`, where they do.
        prefix_cache: whether equal beginnings are kept.
        graph_sizes: decode batches that have a graph; () rounds nothing.
        overlapped: the host prepares the next iteration while the device works on this one.
        host_s: of an iteration, for any batch; host_sequence_s: for each sequence in it;
            host_token_s: for each prompt token; host_prompt_s: where there are any, which
            deploying sets: `eager_s` for each of the launches.
        eager_s: of a launch where prompts run operator by operator; 0: they have graphs.
        launch_s: of a launch where nothing has graphs and `eager_s` says nothing.
        graphs: decode batches are replayed as graphs, where the engine has any.
        serial_s: of an iteration, that the device waits for even where overlapped;
            serial_sequence_s: for each sequence in it; serial_prompt_s: where prompt
            tokens share it with others; serial_token_s: for each of these.
        mixture_s: of the device, for each block with experts, where tokens are sorted by expert in
            kernels of their own: the products' kernels of Blackwell do it themselves.
        experts_pace: of quantized experts' products on Hopper, see `Quantization.pace`.
        look_steps: decode steps between two looks at what has come; after prompts it looks at once.
        request_s: of a request before it is in the queue, beside the work on it.
        accept_s, accept_token_s: of the process that lets requests in: work on one, and for each
            token of its prompt (HTTP, JSON, checks).
        reply_s: from the end of an iteration until its token is with the client, at best.
        front_turns: turns of that process until a request is in the queue, see `front`.
        token_s: of that process, for each token that it streams; what comes faster queues there.
        send_s: likewise, for each sequence of which it sends tokens, one or several together.
        device_scale: on all device time, fitted.
        fitted: from what the constants come.
        tuned: what they were calibrated with beside it (`gpuscope.serving.tuning`).
    """

    name: str
    version: str
    called: str
    scheduler: str
    max_tokens: int
    max_sequences: int
    chunked: bool
    block_tokens: int
    utilization: float
    prefix_cache: bool
    overlapped: bool
    host_s: float
    host_sequence_s: float
    host_token_s: float
    serial_s: float
    request_s: float
    reply_s: float
    reserve: float = 1.0
    reserve_least: float = 0.0
    reserve_steps: int = 0
    reserve_ahead: int = 0
    policies: Mapping[str, str] = field(default_factory=dict)
    sizes: tuple[int, ...] = ()
    delay_s: float = 0.0
    share_of: str = "all"
    window_share: float = 0.0
    state_share: float = 0.0
    counts_graphs: bool = True
    rank_router: str = "round-robin"
    ranks_share: bool = False
    ranks_reserve: float = 1.0
    look_steps: int = 1
    front_turns: int = 1
    token_s: float = 0.0
    send_s: float = 0.0
    serial_sequence_s: float = 0.0
    serial_prompt_s: float = 0.0
    serial_token_s: float = 0.0
    eager_s: float = 0.0
    launch_s: float = 0.0
    mixture_s: float = 0.0
    experts_pace: float = 1.0
    accept_s: float = 0.0
    accept_token_s: float = 0.0
    graphs: bool = True
    host_prompt_s: float = 0.0
    device_scale: float = 1.0
    graph_sizes: tuple[int, ...] = ()
    fitted: str = ""
    tuned: str = ""

    def with_policy(self, name: str | None) -> Engine:
        """The same with another policy of its scheduler.

        Raises:
            UnknownNameError: it has none of that name.
        """
        if name is None:
            return self
        wanted = name.strip().lower().replace("_", "-")
        if wanted not in self.policies:
            raise UnknownNameError(
                Text("policy of {engine}", engine=self.called), name, tuple(self.policies)
            )
        return replace(self, scheduler=self.policies[wanted])

    def of_rank(self, ranks: int) -> Engine:
        """The profile of each of so many ranks that attend to requests of their own."""
        if ranks == 1 or not self.ranks_share:
            return self
        return replace(
            self, max_tokens=max(1, self.max_tokens // ranks),
            max_sequences=max(1, self.max_sequences // ranks),
            reserve=self.reserve * self.ranks_reserve,
            reserve_least=self.reserve_least * self.ranks_reserve,
        )  # fmt: skip

    def without_graphs(self) -> Engine:
        """The same, every kernel launched by the host (vLLM's --enforce-eager)."""
        return replace(self, graphs=False, graph_sizes=(), counts_graphs=False)

    def accepted_s(self, tokens: int) -> float:
        """The work of letting in a prompt of so many tokens."""
        return self.accept_s + self.accept_token_s * tokens

    def way_in_s(self, tokens: int) -> float:
        """Of a lone request with such a prompt, from sending to the queue."""
        return self.request_s + self.accepted_s(tokens)

    def launching(self, launches: int) -> Engine:
        """The same, with what its host takes to launch so many kernels an iteration."""
        if self.graphs:
            return replace(self, host_prompt_s=self.eager_s * launches)
        return replace(self, host_s=self.host_s + (self.eager_s or self.launch_s) * launches)

    def sorting(self, mixtures: float) -> Engine:
        """The same, its device sorting tokens by expert in so many blocks."""
        return replace(self, serial_s=self.serial_s + self.mixture_s * mixtures)

    def step_s(self, device_s: float, sequences: int, tokens: int) -> float:
        """An iteration, of what its device takes and what its host does."""
        host, serial = self.host_busy_s(sequences, tokens), self.waits_s(sequences, tokens)
        if self.overlapped:
            return max(device_s, host) + serial
        return device_s + host + serial

    def waits_s(self, sequences: int, tokens: int) -> float:
        """What the device waits for in an iteration, even where host and device overlap."""
        waits = self.serial_s + self.serial_sequence_s * sequences + self.serial_token_s * tokens
        return waits + self.serial_prompt_s if tokens and sequences > 1 else waits

    def host_busy_s(self, sequences: int, tokens: int) -> float:
        """What the host does for an iteration."""
        busy = self.host_s + self.host_sequence_s * sequences + self.host_token_s * tokens
        return busy + self.host_prompt_s if tokens else busy


@cache
def engines() -> tuple[str, ...]:
    """Names of all profiles."""
    return tuple(
        sorted(each.name[:-5] for each in _FOLDER.iterdir() if each.name.endswith(".toml"))
    )


@cache
def engine(name: str) -> Engine:
    """The profile of that name.

    Raises:
        UnknownNameError: no such engine.
    """
    wanted = name.strip().lower().replace("_", "-")
    wanted = {"trtllm": "tensorrt-llm", "trt-llm": "tensorrt-llm"}.get(wanted, wanted)
    if wanted not in engines():
        raise UnknownNameError(Text("engine"), name, engines())
    values = toml_of((_FOLDER / f"{wanted}.toml").read_bytes())
    like = values.pop("like", None)
    return replace(engine(like), **values) if like else typed(Engine, values)
