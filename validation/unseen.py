"""Programs of kinds that no constant was fitted to: said first, measured once, then judged.

    python validation/unseen.py predict            # before: writes results/unseen_said.json
    python validation/unseen.py measure OUT        # on a GPU: a recording each, the host's bench
    python validation/unseen.py judge              # afterwards: the tables of docs/accuracy.md

The programs are in `workloads/`, set by set (`unseen_*.py`, `fresh_*.py`, `third_*.py`,
`fourth_*.py`, `fifth_*.py`, `sixth_*.py`), written as a tutorial or a paper's code would be. What
was said before the measurement stays in the file and is judged as it was; what today's models say
stands beside it.
A GPU of another kind than the H200 serves as well: predictions are made for both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE), str(HERE / "workloads")]

from zoo import Entry  # noqa: E402

from gpuscope.garbage import rare_collection  # noqa: E402

SAID = HERE / "results" / "unseen_said.json"
RESULTS = HERE / "results" / "unseen.json"
RECORDINGS = HERE / "recordings"
FOLDERS = {"first": "unseen", "second": "fresh"} | {
    n: n for n in ("third", "fourth", "fifth", "sixth")
}
"""Of a device's recordings, by set. Beside them `<folder>_host.toml`, constants of the H200's host by
its own bench of the same minutes."""

DEVICES = ("h100", "h200")
_NAMES = {
    "unseen_images": """ddpm dcgan segmentation mobile video optical_flow superresolution small_cnn
        contrastive detector""",
    "unseen_sequences": """state_space long_convolution retention conformer transducer
        sparse_experts adapters decode_eager character_cells translation""",
    "unseen_sciences": """graph small_graph radiance_field point_cloud policy q_learning table
        gaussian_process solver physics flows fourier_operator two_towers small_autoencoder""",
    "fresh_images": """style_by_optimisation hourglass inception shuffled_channels
        grouped_convolutions patch_convolutions boxes_without_anchors masked_patches
        cross_correlation volumes codebook_of_patches joint_text_and_image splats adversarial
        pooling_instead_of_attention parallel_resolutions words_in_pictures""",
    "fresh_sequences": """windows_of_text random_features relative_distances latents_read_pixels
        compressed_keys sloped_distances orthogonal_updates ternary_weights skipping_tokens
        several_tokens_ahead late_interaction reranking patched_series vocoder sound_codes
        sound_as_patches beams""",
    "fresh_sciences": """pairs_of_residues forces_of_molecules turning_with_the_molecule weather
        branch_and_trunk slopes_of_a_picture hashed_field learning_to_learn dreams
        interest_of_a_shopper actions_as_a_language products_of_fields transport growing_cells
        conserved_energy crowd_of_networks""",
    "third_pictures": """mixed_patches branch_beside_a_denoiser dense_boxes lines_of_writing faces_of_styles
        turned_filters distances_from_one_picture sharper_by_features""",
    "third_texts": """states_in_chunks hidden_words preferred_answers pupil_of_a_teacher questions_and_answers
        words_in_eight_bits speech_to_words voices_apart sentences_apart""",
    "third_worlds": """curves_on_edges weights_from_a_network arrows_in_molecules sides_of_triangles
        crossed_columns columns_as_words what_comes_next_in_the_shop winds_over_a_mesh
        attention_of_neighbours soft_critics surface_of_a_solid clouds_that_flow""",
    "fourth_pictures": """video_diffusion video_autoencoder vision_low_rank_compiled
        self_distillation""",
    "fourth_scenes": """deformable_detection quantisation_aware strip_segmentation
        cameras_to_ground""",
    "fourth_texts": """gated_delta_hybrid latent_attention_decode speculative_verification
        group_relative_policy four_bit_low_rank shampoo_language normalised_language_compiled""",
    "fourth_sciences": """point_transformer spherical_weather cell_counts equivariant_potential
        protein_tuning""",
    "fourth_signals": """speech_pretraining music_separation tables_in_context_compiled
        temporal_fusion multi_task_ranking robot_diffusion""",
    "fifth_views": """masked_video one_stage_detection mask_queries""",
    "fifth_scenes": """spiking_events stereo_volumes field_planes""",
    "fifth_texts": """matrix_memory bytes_in_patches shared_experts distant_buckets""",
    "fifth_readers": """prefill_in_chunks pictures_before_words aligned_translation""",
    "fifth_sciences": """electrons_apart waves_in_volumes spline_flows fourth_slopes""",
    "fifth_games": """played_frames imagined_moves""",
    "fifth_compiled": """sharpness_aware_compiled capped_language_compiled
        graphs_denoised_compiled""",
    "fifth_signals": """noise_to_voice private_gradients""",
    "sixth_views": """face_recognition windows_and_grids masks_from_points matched_pictures""",
    "sixth_makers": """deep_latents pixel_by_pixel parallel_painting consistent_denoiser
        proposals_along_rays""",
    "sixth_texts": """doubling_recurrence differences_of_attention packed_documents_compiled
        sparse_dictionary tags_of_words rare_words_last""",
    "sixth_readers": """paged_decode static_words_compiled encoded_with_padding""",
    "sixth_sounds": """who_speaks books_of_music noises_in_time""",
    "sixth_sciences": """many_aggregates lattice_flow_compiled phases_from_intensities
        centres_of_clouds stacked_forecasts words_from_neighbours""",
    "sixth_compiled": """pictures_and_captions_compiled clearer_pictures_compiled""",
}

PROGRAMS: tuple[Entry, ...] = tuple(
    Entry(
        name.replace("_", "-"),
        f"{module}.py:{name}",
        group=module.replace("unseen_", ""),
        graphs="compiled" if name.endswith("_compiled") else "",
    )
    for module, names in _NAMES.items()
    for name in names.split()
)


# -- before -------------------------------------------------------------------------------------


def said_of(entry: Entry, calibration: dict[str, Path | None] | None = None) -> dict[str, Any]:
    """What is predicted of a program, by device; the reason where it cannot be captured."""
    from predictions import predicted, program_of

    try:
        program = program_of(entry)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"}
    own = calibration or dict.fromkeys(DEVICES)
    return {on: _figures(predicted(program, on, own[on])) for on in own}


def _figures(run: Any) -> dict[str, Any]:
    """What is judged. Launches are kernels, copies and fills, as a recording counts them; until 29
    November 2026 kernels alone, so that what was said before is about 9 % low in that column."""
    from gpuscope.timeline.types import DEVICE_KINDS

    low, high = run.step_time_interval_s
    return {
        "step_s": run.step_time_s,
        "low_s": low,
        "high_s": high,
        "device_s": run.device_busy_s,
        "host_s": run.host_busy_s,
        "launches": int((run.timeline.events.kind < DEVICE_KINDS).sum()),
        "peak_bytes": run.peak_memory_bytes,
        "energy_j": run.energy_j,
    }


def predict(names: list[str], devices: list[str]) -> None:
    """Say it of every program; what is already said of others stays."""
    said = json.loads(SAID.read_text()) if SAID.exists() else {}
    for entry in chosen(names):
        began = time.perf_counter()
        said[entry.name] = found = said_of(entry, dict.fromkeys(devices))
        h200 = found.get("h200", {})
        print(
            f"{entry.name:18s} {time.perf_counter() - began:5.1f} s  "
            + (
                found["error"]
                if "error" in found
                else f"{h200['step_s'] * 1e3:8.2f} ms [{h200['low_s'] * 1e3:.2f}, "
                f"{h200['high_s'] * 1e3:.2f}] device {h200['device_s'] * 1e3:.2f} host "
                f"{h200['host_s'] * 1e3:.2f}, {h200['launches']} launches, "
                f"{h200['peak_bytes'] / 2**30:.2f} GiB"
            ),
            flush=True,
        )
        SAID.write_text(json.dumps(dict(sorted(said.items())), indent=1) + "\n")


def chosen(names: list[str]) -> list[Entry]:
    """The programs named; all by default."""
    return [e for e in PROGRAMS if not names or e.name in names or set_of(e) in names]


def set_of(entry: Entry) -> str:
    """Each set was written after the one before it had been looked at."""
    begin = entry.group.partition("_")[0]
    return next((name for name, folder in FOLDERS.items() if folder == begin), "first")


# -- afterwards ---------------------------------------------------------------------------------


def rows(names: list[str]) -> list[dict[str, Any]]:
    """Recordings beside what was said before them, and for the H200's host by its own bench."""
    from predictions import kernels_by_kind, predicted, program_of

    said, found = json.loads(SAID.read_text()), []
    before = {(r["on"], r["name"]): r for r in json.loads(RESULTS.read_text())}
    for on in DEVICES:
        for entry in chosen(names):
            folder = RECORDINGS / on / FOLDERS[set_of(entry)]
            file = folder / f"{entry.name}.json"
            if not file.exists():
                continue
            real = json.loads(file.read_text())
            if "error" in said[entry.name]:
                print(f"{on} {entry.name}: {said[entry.name]['error']}", flush=True)
                continue
            row = {"name": entry.name, "on": on, "set": set_of(entry), "said": said[entry.name][on]}
            row["measured"] = {
                "step_s": real["step_time_s"],
                "device_s": real["kernel_sum_s"],
                "launches": real["kernel_count"],
                "peak_bytes": real["peak_allocated_bytes"],
                "energy_j": real["energy_j"],
                "loop_s": real["anchors_s"]["python.int_loop_1e6."],
            }
            program = program_of(entry)
            row["today"] = _figures(predicted(program, on))
            if not entry.compiled:
                row["kinds"] = kernels_by_kind(entry, program, on, folder)
                first = before.get((on, entry.name), {}).get("kinds_said")
                # What was said holds for the kinds, too, as long as the models are those of then.
                if first or row["today"] == row["said"]:
                    row["kinds_said"] = first or row["kinds"]
            own = folder.with_name(f"{folder.name}_host.toml")
            if own.exists():
                row["own"] = _figures(predicted(program, on, own))
            found.append(row)
            print(_line(row), flush=True)
    return found


def _line(row: dict[str, Any]) -> str:
    measured, said = row["measured"], row["said"]
    return f"{row['on']} {row['name']:18s} " + "  ".join(
        f"{key} {said[key] / measured[key] - 1:+.1%}"
        for key in ("step_s", "device_s", "launches", "peak_bytes", "energy_j")
        if measured[key] and said[key]
    )


def judge(names: list[str]) -> None:
    """Write the results and the page's tables; what is known of programs not named stays."""
    import unseen_page

    anew = {(r["on"], r["name"]): r for r in rows(names)}
    old = json.loads(RESULTS.read_text()) if names and RESULTS.exists() else []
    found = [anew.pop((r["on"], r["name"]), r) for r in old] + list(anew.values())
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    unseen_page.write(found)


# -- measuring ----------------------------------------------------------------------------------


def anchors() -> dict[str, float]:
    """Seconds of a few of the bench's own calls, now: tells a drifting host from a wrong model."""
    import torch
    from torch import nn

    from gpuscope.measurement.bench.host_python import LOOPS
    from gpuscope.measurement.bench.host_timing import HostTimer

    timer = HostTimer("cuda", 5)
    x, y = torch.randn(8, 64, device="cuda"), torch.randn(8, 64, device="cuda")
    linear = nn.Linear(64, 64).cuda()
    for name, loop, count in LOOPS[:2]:
        timer.once("python", name, "", lambda loop=loop: loop, count, 3)
    timer.calls("op", "add", "grad", lambda: linear.weight + 1.0)
    timer.calls("op", "linear", "grad", lambda: linear(x))
    with torch.no_grad():
        timer.calls("op", "add", "no_grad", lambda: x + y)
        timer.calls("op", "empty", "no_grad", lambda: torch.empty(8, 64, device="cuda"))
        timer.calls("op", "view", "no_grad", lambda: x.view(4, 128))
    return {f"{s.group}.{s.name}.{s.variant}": statistics.median(s.seconds) for s in timer.samples}


def phases(step: Callable[[], object], repeats: int = 7) -> dict[str, float]:
    """Host seconds of a step up to the first `backward`, inside of all, inside of optimizers."""
    import torch
    from torch.optim import optimizer as optimizers

    spent, original = {"backward": 0.0, "optimizer": 0.0}, torch.autograd.backward
    began = [0.0]

    def backward(*args: Any, **kwargs: Any) -> None:
        start = time.perf_counter()
        original(*args, **kwargs)
        spent["backward"] += time.perf_counter() - start

    def before(*_: Any) -> None:
        began[0] = time.perf_counter()

    def after(*_: Any) -> None:
        spent["optimizer"] += time.perf_counter() - began[0]

    hooks = (
        optimizers.register_optimizer_step_pre_hook(before),
        optimizers.register_optimizer_step_post_hook(after),
    )
    torch.autograd.backward = backward
    found: dict[str, list[float]] = {"backward": [], "optimizer": [], "whole": []}
    try:
        for _ in range(repeats):
            spent.update(backward=0.0, optimizer=0.0)
            torch.cuda.synchronize()
            start = time.perf_counter()
            step()
            found["whole"].append(time.perf_counter() - start)
            for name, seconds in spent.items():
                found[name].append(seconds)
    finally:
        torch.autograd.backward = original
        for hook in hooks:
            hook.remove()
    torch.cuda.synchronize()
    return {name: statistics.median(times) for name, times in found.items()}


def without_collector(step: Callable[[], object], step_s: float) -> float:
    """Step time while Python's garbage collector is off: what it costs is the difference."""
    import gc

    import torch

    count = max(3, min(150, int(0.25 / step_s)))
    gc.disable()
    try:
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(count):
            step()
        torch.cuda.synchronize()
        return (time.perf_counter() - began) / count
    finally:
        gc.enable()


def record(entry: Entry, out: Path, seconds: float) -> dict[str, Any]:
    """One program, measured in this process: see `measure.measure`, with the host looked at."""
    import measure

    kept: list[Callable[[], object]] = []
    resolve = measure.resolve_build

    def remembered(e: Entry) -> Callable[[], Callable[[], object]]:
        def build() -> Callable[[], object]:
            kept.append(resolve(e)())
            return kept[0]

        return build

    measure.resolve_build = remembered
    found = dict(measure.measure(entry, out, seconds))
    step = kept[0]
    return {
        **found,
        "anchors_s": anchors(),
        "phases_s": phases(step),
        "no_collector_s": without_collector(step, float(found["step_time_s"])),
    }


def measure_all(out: Path, names: list[str], seconds: float, budget_s: float) -> None:
    """Bench the host, measure every program that has no recording yet; bench again in time left."""
    import measure

    began = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    if not (out / "first").exists():
        measure.bench_host(out / "first")
    bench_s = time.perf_counter() - began
    print(f"bench done after {bench_s:.0f} s", flush=True)
    import torch
    import torch._dynamo  # noqa: F401
    import transformers  # noqa: F401

    (out / "machine.json").write_text(json.dumps(measure.machine(), indent=1))
    left = [e for e in chosen(names) if not (out / f"{e.name}.json").exists()]
    measure.warm_compiler([e for e in left if e.compiled])
    print(f"compiled after {time.perf_counter() - began:.0f} s", flush=True)
    for entry in left:
        file = out / f"{entry.name}.json"
        if time.perf_counter() - began > budget_s:
            print(f"{entry.name}: left out, no time", flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                found = record(entry, out, seconds)
                file.write_text(json.dumps(found, indent=1))
                print(
                    f"{entry.name}: {found['step_time_s'] * 1e3:.3f} ms, issue "
                    f"{found['host_issue_s'] * 1e3:.3f}, kernels "
                    f"{found['kernel_sum_s'] * 1e3:.3f}, {found['kernel_count']} launches, "
                    f"peak {found['peak_allocated_bytes'] / 2**30:.3f} GiB, "
                    f"{found['average_w'] or 0:.0f} W, {found['total_s']:.1f} s",
                    flush=True,
                )
                code = 0
            except BaseException as error:
                text = str(error).strip().split("\n")[0][:300]
                print(f"{entry.name}: FAILED {type(error).__name__}: {text}", flush=True)
            os._exit(code)
        os.waitpid(pid, 0)
    if time.perf_counter() - began + bench_s < budget_s:
        measure.bench_host(out / "last")


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    saying = commands.add_parser("predict")
    saying.add_argument("names", nargs="*")
    saying.add_argument("--on", nargs="+", choices=DEVICES, default=list(DEVICES))
    commands.add_parser("judge").add_argument("names", nargs="*")
    measuring = commands.add_parser("measure")
    measuring.add_argument("out", type=Path)
    measuring.add_argument("names", nargs="*")
    measuring.add_argument("--seconds", type=float, default=1.4)
    measuring.add_argument("--budget", type=float, default=420)
    args = parser.parse_args()
    if args.command != "measure":
        rare_collection()
    if args.command == "predict":
        predict(args.names, args.on)
    elif args.command == "judge":
        judge(args.names)
    else:
        measure_all(args.out, args.names, args.seconds, args.budget)


if __name__ == "__main__":
    main()
