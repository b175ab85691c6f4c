"""Chinese for the English texts around an explanation's blocks. The key is the English text."""

from __future__ import annotations

from collections.abc import Mapping

BLOCKS_CHINESE: Mapping[str, str] = {
    "Read one: gpuscope learn 1   All as a page: --report book.html": (
        "读一课：gpuscope learn 1   全部做成一页：--report book.html"
    ),
    "{name} (log)": "{name}（对数）",
    "80 %: {low} to {high}": "80 %：{low} 至 {high}",
    "computed": "计算得出",
    # diagrams
    "at most": "上限",
    "narrowest": "最窄处",
    "throughout": "始终",
    "step {n}": "第 {n} 步",
    "and {n} more like these": "另有 {n} 条同样的",
    "steps {first} to {last}": "第 {first} 至 {last} 步",
    "and {n} more steps of the same kind": "之后还有 {n} 个同样的步骤",
    "and {n} more steps": "之后还有 {n} 步",
    # heat maps
    "each column stands for {n}": "每列代表 {n} 个",
    "each row stands for {n}": "每行代表 {n} 个",
    "each column stands for {columns}, each row for {rows}": (
        "每列代表 {columns} 个，每行代表 {rows} 个"
    ),
    "empty": "空",
    "up to {value}": "至 {value}",
    # explorers
    "at {sliders}": "取 {sliders}",
    "Move the sliders on the page: add --report FILE.html": (
        "在页面中拖动滑块：加上 --report FILE.html"
    ),
    # around the sections
    "Next": "接下来",
    "Sources": "出处",
}
