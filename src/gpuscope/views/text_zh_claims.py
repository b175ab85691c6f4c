"""Chinese for the texts of `gpuscope claims`."""

from __future__ import annotations

CLAIMS_CHINESE = {
    "claim no.": "编号",
    "verdict": "结论",
    "the claim": "说法",
    "what is true": "实际情况",
    "how we know": "依据",
    "claimed": "所称数值",
    "method": "方法",
    "topic": "主题",
    "{n} claims of articles; the verdicts of {computed} were computed.": (
        "共 {n} 条文章说法，其中 {computed} 条的结论由计算得出。"
    ),
    "Read them: gpuscope claims --verdict wrong, --topic memory, nvlink, C-015, --all": (
        "查看：gpuscope claims --verdict wrong、--topic memory、nvlink、C-015、--all"
    ),
    "No claim matches.": "没有匹配的说法。",
    "One in depth: gpuscope claims {id}": "查看某一条的详情：gpuscope claims {id}",
    "wrong": "错误",
    "imprecise": "不准确",
    "depends": "视情况而定",
    "right": "正确",
    "cannot say": "无法判断",
    "catalogue": "设备目录",
    "formula": "公式",
    "cost model": "成本模型",
    "recorded measurement": "实测记录",
    "nothing was computed": "未作计算",
}
