"""The tools: what can be called, each with a typed result.

Their names, parameters and docstrings are what a client is told; write them for a reader who has
seen nothing else.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import msgspec

from gpuscope.document.plain import plain
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.mcp import digests
from gpuscope.mcp.child import ask
from gpuscope.mcp.results import Result, Results, details
from gpuscope.mcp.types import (
    AdviceDigest,
    ComparisonDigest,
    Details,
    HealthDigest,
    LadderDigest,
    PlanDigest,
    RunDigest,
    ServingDigest,
    Told,
)

NAMES = (
    "predict", "advise", "analyze", "compare", "optimize", "explain", "plan", "serve", "load",
    "doctor", "details",
)  # fmt: skip
"""All tools, each the method of `Tools` of its name."""


class Tools:
    """The tools, and what they have made."""

    def __init__(self) -> None:
        self.results = Results()

    def predict(
        self,
        workload: str,
        on: str = "h200",
        options: dict[str, Any] | None = None,
        what_if: dict[str, float] | None = None,
    ) -> RunDigest:
        """Predict one step of PyTorch code without a GPU: time, memory, energy, what limits it.

        Args:
            workload: "train.py:build" (a function that returns a step function), "train.py" (a
                whole script), a built-in model ("gpt2", "llama-3.1-8b"), or a Hugging Face
                config.json.
            on: device or cluster: "h100", "8xh200", "a100-80gb".
            options: of a built-in model: task (train, prefill, decode), batch, seq, context,
                dtype, layers, attention, optimizer, compile; of a script: arguments (a list).
            what_if: device figures to change, in SI units: {"memory_bandwidth_bytes_per_s": 8e12}.
        """
        from gpuscope.run.reader import read_run

        answer = ask(
            "predict", workload=workload, on=on, options=_options(options), overrides=what_if or {}
        )
        run = read_run(answer)
        return digests.run_digest(self.results.keep("run", Result(answer, run)), run)

    def advise(
        self,
        workload: str,
        on: str = "h200",
        options: dict[str, Any] | None = None,
        only: list[str] | None = None,
    ) -> AdviceDigest:
        """Predict every known change of the code (precision, compile, attention, fused optimizer,
        input, memory, ...), alone and in the best combination. Nothing is run; takes a minute.

        Args:
            workload, on, options: as of predict.
            only: names of changes to consider.
        """
        answer = ask("advise", workload=workload, on=on, options=_options(options), only=only or [])
        name = self.results.keep("advice", Result(answer["document"]))
        return replace(msgspec.convert(answer["digest"], AdviceDigest), id=name)

    def analyze(self, path: str, on: str | None = None) -> RunDigest:
        """Read a recording (a Kineto or Nsight Systems trace, a folder of ranks, a saved run, a
        memory snapshot) and say where its time went.

        Args:
            path: file or folder.
            on: the device it was made on, where the recording does not say.
        """
        from gpuscope.loading import load
        from gpuscope.run.document import run_document

        run = load([path], on=on)
        name = self.results.keep("run", Result(run_document(run, timeline=False), run))
        return digests.run_digest(name, run)

    def compare(self, a: str, b: str) -> ComparisonDigest:
        """Say which operators make two runs differ, and why.

        Args:
            a, b: ids of runs ("run-1"), as predict and analyze return them.
        """
        from gpuscope.analysis.compare import compare
        from gpuscope.run.document import comparison_document

        found = compare(self.results.run(a), self.results.run(b))
        name = self.results.keep("comparison", Result(comparison_document(found)))
        return digests.comparison_digest(name, found)

    def optimize(
        self,
        workload: str,
        options: dict[str, Any] | None = None,
        only: list[str] | None = None,
        device: str = "",
        budget_s: float = 600.0,
        out: str = "",
    ) -> LadderDigest:
        """Run the code for real on this machine, try changes in pairs, check that results agree,
        and return the patch of what won; the patched source itself was run. Takes minutes.

        Args:
            workload, options: as of predict; code in a file.
            only: names of changes to try, as advise tells them.
            device: "cuda", "cuda:1" or "cpu"; "" for this machine's GPU.
            budget_s: seconds for all of it.
            out: folder for the ladder and the patch; "" for gpuscope-optimize/NAME.
        """
        answer = ask(
            "optimize",
            workload=workload,
            options=_options(options),
            only=only or [],
            device=device,
            budget_s=budget_s,
            out=out,
        )
        name = self.results.keep("ladder", Result(answer["document"]))
        return replace(msgspec.convert(answer["digest"], LadderDigest), id=name)

    def explain(
        self, topic: str, values: list[Any] | None = None, options: dict[str, Any] | None = None
    ) -> Told:
        """Explain a thing of GPUs with the figures of the models: matmul, attention, collective,
        occupancy, memory, error, kernel, ...

        Args:
            topic: its name; a wrong one is answered with the list.
            values: what the topic takes: [8192, 4096, 4096] for matmul.
            options: its options: {"dtype": "bf16", "on": "h200"}.
        """
        from gpuscope.explanation.registry import explain
        from gpuscope.views.explanation import explanation_document

        found = explain(topic, *(values or ()), **(options or {}))
        document = explanation_document(found)
        return digests.told(
            self.results.keep("explanation", Result(document, explanation=found)), found
        )

    def plan(
        self,
        model: str,
        on: str = "h200",
        devices: str = "8",
        global_batch: int = 64,
        seq: int = 4096,
        goal: str = "time",
        simulate: int = 2,
    ) -> PlanDigest:
        """Choose devices, parallelism, micro-batch and recomputation to train a built-in decoder.

        Args:
            model: "llama-3.1-8b".
            on: devices of the catalogue: "h100,h200".
            devices: how many: "8", "8..64" (powers of two).
            global_batch: sequences of a step of the whole job.
            seq: tokens of a sequence.
            goal: time, cost or energy.
            simulate: how many of the best are simulated; each takes seconds to a minute.
        """
        from gpuscope.planning.verb import plan

        found = plan(
            model,
            on=on,
            devices=devices,
            global_batch=global_batch,
            seq=seq,
            goal=goal,
            simulate=simulate,
        )
        return digests.plan_digest(self.results.keep("plan", Result(plain(found))), found)

    def serve(
        self,
        model: str,
        on: str = "h200",
        engine: str = "vllm",
        rate: float = 0.0,
        concurrency: list[int] | None = None,
        input_tokens: str = "1024",
        output_tokens: str = "256",
        requests: int = 200,
    ) -> ServingDigest:
        """Predict how an engine serves a model: time to first token, time per token, throughput.

        Args:
            model: a built-in decoder or a Hugging Face config.json.
            on: device or cluster.
            engine: vllm, sglang, tensorrt-llm or static.
            rate: requests each second; or
            concurrency: closed loops, one entry each.
            input_tokens, output_tokens: lengths: "1024", "256..2048", "lognormal:1024,0.8".
            requests: how many.
        """
        from gpuscope.serving.document import serving_document
        from gpuscope.serving.verb import serve

        found = serve(
            model,
            on,
            engine=engine,
            rate=rate,
            concurrency=tuple(concurrency or ()),
            input=input_tokens,
            output=output_tokens,
            requests=requests,
        )
        document = {"runs": [serving_document(each) for each in found]}
        return digests.serving_digest(self.results.keep("serving", Result(document)), found)

    def load(
        self,
        url: str,
        model: str = "",
        rate: float = 0.0,
        concurrency: int = 0,
        input_tokens: str = "512",
        output_tokens: str = "128",
        requests: int = 100,
        seconds: float = 60.0,
    ) -> ServingDigest:
        """Load a running server for real (OpenAI's protocol), and measure how it serves: time to
        first token, time per token, throughput. Compare with what serve predicts.

        Args:
            url: of the server: "http://localhost:8000".
            model: its name there; "" for the one that it has.
            rate: requests each second, sent at their times; or
            concurrency: so many in flight.
            input_tokens, output_tokens: lengths: "512", "256..1024", "lognormal:512,0.8".
            requests: how many at most.
            seconds: how long they are sent at most.
        """
        from gpuscope.serving.client.load_test import load_test
        from gpuscope.serving.document import serving_document

        found = load_test(
            url,
            model=model,
            rate=rate or None,
            concurrency=concurrency or None,
            input=input_tokens,
            output=output_tokens,
            count=requests,
            for_s=seconds,
        )
        document = {"runs": [serving_document(found)]}
        return digests.serving_digest(self.results.keep("serving", Result(document)), [found])

    def doctor(self, only: list[str] | None = None) -> HealthDigest:
        """Examine this machine: driver, libraries, links, health of GPUs; what to repair.

        Args:
            only: names of checks; all by default.
        """
        from gpuscope.doctor.diagnose import diagnose
        from gpuscope.doctor.machine import LiveMachine
        from gpuscope.views.doctor_document import diagnosis_document

        machine = LiveMachine()
        try:
            found = diagnose(machine, only=only or [])
        finally:
            machine.stop()
        name = self.results.keep("diagnosis", Result(diagnosis_document(found)))
        return digests.health_digest(name, found)

    def details(self, id: str, path: str = "", rows: int = 20) -> Details:
        """Read a part of a result in full: first without a path, to see what there is.

        Args:
            id: of the result: "run-1".
            path: "analysis.operators", "analysis.findings.0"; `more` of each result names some.
            rows: most rows of a list.
        """
        return details(self.results, id, path, rows)


_OPTIONS = (
    "task", "batch", "seq", "context", "image", "layers", "dtype", "attention", "optimizer",
    "compile", "checkpointing", "from_host", "arguments", "module",
    "step",
)  # fmt: skip


def _options(given: dict[str, Any] | None) -> dict[str, Any]:
    """Options of a workload; the file's folder stays where the server was started."""
    from gpuscope.errors import UnknownNameError

    for name in given or {}:
        if name not in _OPTIONS:
            raise UnknownNameError(Text("option"), name, _OPTIONS)
    return dict(given or {})


def folder(path: str) -> None:
    """Go to the project's folder, from which workloads are named.

    Raises:
        InvalidValueError: it is none.
    """
    try:
        os.chdir(path)
    except OSError as error:
        raise InvalidValueError(
            Text("{path} is no folder to work in.", path=path),
            f"{error.strerror}.",
            Text("Name your project's folder."),
        ) from None
