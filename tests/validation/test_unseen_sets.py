"""Unseen programs of the fourth set and those after it, small: each runs, here, and is captured."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "validation"), str(ROOT / "validation/workloads")]

torch = pytest.importorskip("torch")

import unseen  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402

SMALL: dict[str, dict[str, Any]] = {
    "video_diffusion": {"batch": 2, "frames": 3, "side": 8, "width": 32, "depth": 1, "heads": 2},
    "video_autoencoder": {"frames": 3, "side": 8, "widths": (32, 32, 64)},
    "vision_low_rank_compiled": {"batch": 2, "side": 28, "width": 32, "depth": 1, "heads": 2},
    "self_distillation": {
        "batch": 2, "width": 32, "depth": 1, "heads": 2, "count": 64, "sides": (64, 32)
    },
    "deformable_detection": {"batch": 1, "side": 64, "depth": 1, "queries": 9, "truths": 2},
    "quantisation_aware": {"batch": 2, "side": 32},
    "strip_segmentation": {
        "batch": 1, "side": 64, "widths": (8, 16, 24, 32), "depths": (1, 1, 1, 1)
    },
    "cameras_to_ground": {"batch": 1, "cameras": 2, "height": 32, "width": 64, "ground": 40},
    "gated_delta_hybrid": {
        "batch": 1, "length": 32, "width": 64, "depth": 4, "heads": 2, "words": 50, "chunk": 8
    },
    "latent_attention_decode": {
        "batch": 2, "length": 16, "width": 64, "depth": 1, "heads": 2, "words": 50, "steps": 2
    },
    "speculative_verification": {
        "batch": 2, "length": 8, "drafted": 3, "width": 512, "depth": 1, "wide": 64, "words": 50,
        "small": 128,
    },
    "group_relative_policy": {"length": 32, "width": 384, "depth": 1, "words": 50},
    "four_bit_low_rank": {"batch": 1, "length": 16, "width": 512, "depth": 1, "words": 50},
    "shampoo_language": {
        "batch": 2, "length": 8, "width": 64, "depth": 1, "words": 48, "size": 16
    },
    "normalised_language_compiled": {
        "batch": 2, "length": 16, "width": 128, "depth": 1, "words": 50
    },
    "point_transformer": {"batch": 2, "points": 64, "near": 4, "widths": (8, 16)},
    "spherical_weather": {
        "batch": 1, "width": 8, "depth": 1, "latitudes": 12, "longitudes": 24, "degrees": 6
    },
    "cell_counts": {"batch": 8, "genes": 50, "hidden": 16},
    "equivariant_potential": {"atoms": 16, "near": 4, "width": 8, "depth": 1},
    "protein_tuning": {"batch": 2, "length": 24, "width": 64, "depth": 2, "heads": 2},
    "speech_pretraining": {
        "batch": 2, "samples": 32000, "width": 64, "depth": 1, "filters": 16, "negatives": 5
    },
    "music_separation": {"batch": 1, "samples": 4096, "width": 8, "depth": 2},
    "tables_in_context_compiled": {
        "batch": 2, "rows": 20, "columns": 6, "width": 24, "depth": 1, "heads": 2
    },
    "temporal_fusion": {"batch": 3, "past": 6, "ahead": 3, "width": 16},
    "multi_task_ranking": {"batch": 16, "tables": 2, "things": 40, "width": 8, "history": 3},
    "robot_diffusion": {"batch": 2, "side": 64, "widths": (16, 32, 64)},
    "masked_video": {
        "batch": 2, "frames": 4, "side": 64, "width": 64, "depth": 1, "narrow": 64, "shallow": 1
    },
    "one_stage_detection": {"batch": 2, "side": 64, "width": 8, "classes": 4, "truths": 3},
    "mask_queries": {
        "batch": 2, "side": 64, "widths": (8, 16, 16, 32), "width": 64, "queries": 8, "depth": 3,
        "classes": 4, "truths": 3, "points": 20,
    },
    "spiking_events": {
        "batch": 2, "moments": 3, "side": 16, "width": 8, "blocks": (1, 1), "classes": 3
    },
    "stereo_volumes": {
        "batch": 2, "height": 128, "width": 128, "channels": 8, "depths": 16, "glasses": 1
    },
    "field_planes": {
        "rays": 16, "samples": 12, "grid": 20, "dense": 4, "shown": 6, "kept": 5
    },
    "matrix_memory": {"batch": 2, "length": 12, "width": 64, "depth": 1, "heads": 2, "words": 50},
    "bytes_in_patches": {
        "batch": 1, "length": 64, "patch": 4, "width": 128, "narrow": 64, "depth": 1, "shallow": 1,
        "parts": 2,
    },
    "shared_experts": {
        "batch": 2, "length": 16, "width": 128, "depth": 1, "experts": 4, "chosen": 2, "wide": 32,
        "words": 50,
    },
    "distant_buckets": {
        "batch": 2, "asked": 24, "told": 12, "width": 64, "depth": 1, "heads": 2, "words": 50
    },
    "prefill_in_chunks": {
        "length": 32, "chunk": 8, "width": 64, "depth": 2, "heads": 4, "groups": 2, "words": 50
    },
    "pictures_before_words": {
        "side": 96, "seeing": 64, "looks": 1, "width": 64, "depth": 1, "heads": 4, "groups": 2,
        "words": 50, "asked": 4, "told": 3,
    },
    "aligned_translation": {"batch": 3, "length": 6, "width": 16, "words": 40},
    "electrons_apart": {"walkers": 8, "width": 16, "pair": 4, "depth": 2, "determinants": 2},
    "waves_in_volumes": {"batch": 1, "side": 8, "past": 2, "width": 6, "modes": 3, "depth": 2},
    "spline_flows": {"batch": 16, "columns": 6, "width": 16, "layers": 2, "bins": 4},
    "fourth_slopes": {"points": 16, "width": 8, "depth": 2},
    "played_frames": {"actors": 4, "moments": 5, "parts": 2, "widths": (4, 4, 8)},
    "imagined_moves": {
        "batch": 4, "side": 5, "planes": 3, "width": 8, "depth": 1, "ahead": 2, "support": 21
    },
    "sharpness_aware_compiled": {"batch": 4, "side": 8, "width": 8, "depth": 1, "classes": 5},
    "capped_language_compiled": {
        "batch": 2, "length": 16, "width": 64, "depth": 2, "heads": 2, "words": 50
    },
    "graphs_denoised_compiled": {
        "batch": 3, "points": 6, "width": 16, "bonds": 8, "whole": 8, "depth": 1, "heads": 2
    },
    "noise_to_voice": {"batch": 2, "frames": 4, "width": 8, "depth": 3, "bands": 10},
    "private_gradients": {"batch": 4, "side": 8, "widths": (8, 16), "classes": 3},
    "face_recognition": {
        "batch": 4, "side": 16, "widths": (8, 8, 16, 16), "depths": (1, 1, 1, 1), "people": 9
    },
    "windows_and_grids": {
        "batch": 2, "side": 32, "widths": (32, 64), "depths": (1, 1), "size": 4, "classes": 3
    },
    "masks_from_points": {
        "side": 96, "width": 32, "depth": 3, "heads": 2, "points": 3, "window": 4
    },
    "matched_pictures": {
        "batch": 1, "high": 32, "wide": 48, "widths": (16, 24, 32), "depth": 1, "chosen": 5
    },
    "deep_latents": {
        "batch": 2, "side": 8, "width": 16, "latents": 2, "levels": ((8, 1), (4, 1), (1, 1))
    },
    "pixel_by_pixel": {"batch": 2, "side": 6, "width": 8, "depth": 1, "parts": 2},
    "parallel_painting": {
        "batch": 2, "side": 4, "width": 32, "depth": 1, "heads": 2, "codes": 20, "rounds": 2
    },
    "consistent_denoiser": {
        "batch": 2, "side": 8, "width": 64, "many": (1, 1), "depth": 1, "attend": (False, True)
    },
    "proposals_along_rays": {
        "rays": 8, "sizes": (8, 8, 4), "width": 16, "deep": 2, "small": (8, 2)
    },
    "doubling_recurrence": {
        "batch": 2, "length": 16, "width": 64, "depth": 3, "heads": 2, "window": 4, "words": 50
    },
    "differences_of_attention": {
        "batch": 2, "length": 16, "width": 64, "depth": 2, "heads": 2, "words": 50
    },
    "packed_documents_compiled": {
        "batch": 2, "length": 16, "width": 64, "depth": 2, "heads": 2, "words": 50, "ends": 0.2
    },
    "sparse_dictionary": {"batch": 16, "width": 32, "latents": 64, "chosen": 4, "helpers": 8},
    "tags_of_words": {
        "batch": 3, "length": 6, "letters": 5, "width": 16, "hidden": 8, "tags": 4, "words": 50
    },
    "rare_words_last": {"batch": 3, "length": 6, "width": 32, "hidden": 32, "words": 100},
    "paged_decode": {
        "batch": 3, "past": 16, "size": 4, "width": 64, "depth": 1, "heads": 4, "groups": 2,
        "words": 50, "steps": 2,
    },
    "static_words_compiled": {
        "batch": 2, "places": 16, "past": 6, "width": 96, "depth": 1, "heads": 4, "groups": 2,
        "words": 50, "steps": 2,
    },
    "encoded_with_padding": {
        "batch": 3, "length": 16, "width": 32, "depth": 1, "heads": 2, "words": 50
    },
    "who_speaks": {"batch": 3, "samples": 6000, "width": 32, "bands": 8, "people": 5},
    "books_of_music": {
        "batch": 2, "frames": 10, "told": 4, "width": 32, "depth": 1, "heads": 2, "codes": 20
    },
    "noises_in_time": {
        "batch": 3, "samples": 8000, "widths": (8, 8), "classes": 5, "bands": 8
    },
    "many_aggregates": {
        "nodes": 60, "edges": 200, "graphs": 4, "width": 16, "depth": 1, "learnt": 8
    },
    "lattice_flow_compiled": {"high": 64, "wide": 128, "rounds": 4},
    "phases_from_intensities": {"shots": 3, "size": 16, "across": 40},
    "centres_of_clouds": {
        "points": 400, "width": 8, "centres": 6, "chunk": 100, "rounds": 2
    },
    "stacked_forecasts": {"batch": 8, "past": 24, "ahead": 8, "width": 16, "each": 1},
    "words_from_neighbours": {"batch": 16, "wrong": 3, "width": 8, "words": 50},
    "pictures_and_captions_compiled": {
        "batch": 3, "side": 32, "width": 32, "depth": 1, "heads": 2, "told": 6, "words": 50
    },
    "clearer_pictures_compiled": {
        "batch": 2, "side": 16, "width": 8, "down": (1, 1), "middle": 1
    },
}  # fmt: skip


READS = (
    "video_autoencoder", "latent_attention_decode", "speculative_verification",
    "prefill_in_chunks", "pictures_before_words", "masks_from_points", "matched_pictures",
    "parallel_painting", "paged_decode", "static_words_compiled", "encoded_with_padding",
)  # fmt: skip
"""What does not train."""


class OnProcessor(TorchFunctionMode):
    """What asks for "cuda" gets the processor; what would be compiled runs as it is."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call `func` on the processor."""
        kwargs = dict(kwargs or {})
        if str(kwargs.get("device", "")).startswith("cuda"):
            kwargs["device"] = "cpu"
        return args[0] if func is torch.Tensor.cuda else func(*args, **kwargs)


def target(entry: unseen.Entry) -> tuple[str, Callable[..., Callable[[], object]]]:
    """The program's name and the function that builds it."""
    module, _, name = entry.target.partition(".py:")
    return name, getattr(importlib.import_module(module), name)


@pytest.fixture(autouse=True)
def _precision_as_before():
    """Programs say how float32 multiplies; later tests of this process shall not hear of it."""
    convolutions = torch.backends.cudnn.allow_tf32
    yield
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = convolutions


LATER = [e for e in unseen.PROGRAMS if unseen.set_of(e) in ("fourth", "fifth", "sixth")]


@pytest.mark.parametrize("entry", LATER, ids=lambda e: e.name)
def test_a_small_one_runs_and_is_the_same_each_time(entry, monkeypatch) -> None:
    name, build = target(entry)
    monkeypatch.setattr(torch, "compile", lambda model, **_: model)
    monkeypatch.setattr(torch.nn.Module, "cuda", lambda self: self)
    said = []
    for _ in range(2):
        with OnProcessor():
            step = build(**SMALL[name])
            said.append([_flat(step()) for _ in range(2)])
    assert said[0] == said[1]
    assert all(-1e9 < value < 1e9 for values in said[0] for value in values)
    if name not in READS:
        assert said[0][0] != said[0][1]  # it learns


def _flat(found: Any) -> list[float]:
    parts = found if isinstance(found, tuple) else (found,)
    return [float(v) for part in parts for v in part.flatten()[:64].float()]


@pytest.mark.parametrize("entry", LATER, ids=lambda e: e.name)
def test_a_small_one_is_captured(entry) -> None:
    import gpuscope as gs

    name, build = target(entry)
    found = gs.predict(lambda: build(**SMALL[name]), on="h200")
    assert found.step_time_interval_s[0] <= found.step_time_s <= found.step_time_interval_s[1]
    assert (found.timeline.events.kind == 0).sum() > 10
