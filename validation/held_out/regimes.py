"""What a point is like, in words: the groups that errors are summed over."""

from __future__ import annotations

from held_out.points import Params

PRODUCTS = frozenset({"mm", "addmm"})


def labels(kind: str, params: Params, state: str) -> tuple[str, ...]:
    """The groups within its kind that a point belongs to; it may be in several."""
    found = [state]
    if kind == "matmul":
        found.append(params["dtype"])
        found.append(params["regime"] if params["op"] in PRODUCTS else params["op"])
    elif kind == "attention":
        found += [params["dir"], params["dtype"]]
        found += ["masked"] if params["mask"] != "none" else []
        found += ["shared heads"] if params["h"] != params["hkv"] else []
    elif kind == "convolution":
        found += [params["dir"], params["form"], params["dtype"]]
        found.append("channels last" if params["last"] else "channels first")
        found += ["benchmark"] if params["benchmark"] else []
    elif kind == "pointwise":
        found += [params["form"], params["dtype"]]
    elif kind == "reduction":
        found += [params["place"], params["op"]]
    elif kind == "recurrent":
        found += [params["op"], params["dir"]]
    else:
        found.append(params["op"])
        found += [params["dir"]] if "dir" in params else []
    return tuple(found)
