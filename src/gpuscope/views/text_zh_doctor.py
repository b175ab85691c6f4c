"""Chinese for `gpuscope doctor`."""

from __future__ import annotations

DOCTOR_CHINESE = {
    "Worth knowing": "值得知道",
    "Could not be read": "无法读取",
    "As it should be": "正常",
    "Also test the devices at work (minutes): gpuscope doctor --deep": (
        "还可以让设备实际运行来检验（需数分钟）：gpuscope doctor --deep"
    ),
    "Nothing was checked.": "没有检查任何项目。",
    "This machine is all right.": "这台机器一切正常。",
    "1 error": "1 个错误",
    "{n} errors": "{n} 个错误",
    "1 warning": "1 个警告",
    "{n} warnings": "{n} 个警告",
    "{what} to mend.": "有 {what}需要处理。",
    "driver": "驱动",
    "in {what}": "运行于 {what}",
    "group": "组",
    "check": "检查项",
    "what it looks at": "检查内容",
    "Only some of them: gpuscope doctor --only health --only driver": (
        "只运行一部分：gpuscope doctor --only health --only driver"
    ),
    "{n} checks in {time} s.": "{n} 项检查，用时 {time} 秒。",
    "found": "发现",
    "why it matters": "影响",
    "what to do": "处理方法",
    "ok": "正常",
    "note": "提示",
    "warning": "警告",
    "error": "错误",
    "The two machines agree in all {n} results.": "两台机器的 {n} 项结果全部一致。",
    "{told} results are better or worse, {other} differ in figures, {same} agree.": (
        "{told} 项结果好坏不同，{other} 项数值不同，{same} 项一致。"
    ),
    "this machine": "这台机器",
    "the other": "另一台",
    "Examining this machine …": "正在检查这台机器 …",
    "Recording this machine …": "正在记录这台机器 …",
}
"""Keys are the English texts."""
