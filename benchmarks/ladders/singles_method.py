"""The page of single changes: how they were measured, what was not, and what cannot be told."""

from __future__ import annotations

from ladder_results import without_paths
from page_words import InLanguage, cell, named, percent, table
from single_gains import LEARNT, NOT_COUNTED, NOT_PREDICTED, Evidence, Original, summary

from gpuscope.document import format as written

__all__ = ["Method", "OfEvidence"]

SIZED = "experts"
"""The script whose data decides the sizes of its products."""


class OfEvidence(InLanguage):
    """A page, or a part of one, on what was predicted and measured.

    Args:
        found: all of it.
        zh: in Chinese.
        typical: the same from median blocks; None leaves that comparison out.
    """

    def __init__(self, found: Evidence, zh: bool, typical: Evidence | None = None) -> None:
        super().__init__(zh)
        self.found, self.typical = found, typical


class Method(OfEvidence):
    """How it was measured, in one language."""

    def text(self) -> str:
        """All of it."""
        parts = [
            self.t("## How it was measured", "## 如何测量"),
            self.t(
                "Each change was built alone into the naive script, warmed up and timed in blocks;"
                " the original before, after every few changes and at the end. A disturbance only"
                " makes a block slower, so the least block of a change is held against the least of"
                " all blocks of the original of the same file. The original has more blocks to"
                " choose from, and a change may have been disturbed in all of its own: gains are"
                " rather measured too small than too large.",
                "每项改动单独加入朴素脚本，预热后分块计时；原始代码在开头、每隔几项改动以及结尾各测一次。"
                "干扰只会使块变慢，所以用改动的最小块与同一文件中原始代码所有块的最小值相比。"
                "原始代码可选的块更多，而某项改动的所有块可能都受过干扰：实测提速宁偏小而不偏大。",
            ),
            self._shared(),
            *(
                self._unsteady(o)
                for o in self.found.originals
                if o.unsteady and o.case not in NOT_COUNTED
            ),
            *(self._waits(o) for o in self.found.originals if o.case in NOT_PREDICTED),
            *(self._learnt(o) for o in self.found.originals if o.case in LEARNT),
            self._sized(),
            self._median(),
            self._unmeasured(),
            self._failures(),
        ]
        return "\n\n".join(part for part in parts if part)

    def _shared(self) -> str:
        if not self.found.shared:
            return ""
        return self.t(
            "Two cases shared a device and took turns for what was timed; what one did beside it"
            " still disturbed some blocks of the other, up to twice their time.",
            "两个案例共用一块设备，计时部分轮流进行；但一方的其他工作仍干扰了另一方的一些块，"
            "最多使其用时翻倍。",
        )

    def _unsteady(self, of: Original) -> str:
        return self.t(
            f"`{of.case}` as it is took {written.time(of.step_s)} a step in its fastest block and"
            f" {written.time(of.slowest_s)} in its slowest; by what it was disturbed is not known. Its"
            " gains are listed and counted, but these measurements cannot tell a wrong forecast"
            " from a disturbance; the table above also shows the figures without it.",
            f"`{of.case}` 原始代码每步最快的块为 {written.time(of.step_s)}，最慢的块为"
            f" {written.time(of.slowest_s)}；受何干扰不得而知。其提速照列并计入，"
            "但这些测量无法区分预测错误与干扰；上表也给出不含它的数字。",
        )

    def _waits(self, of: Original) -> str:
        number = sum(gain.case == of.case for gain in self.found.gains)
        predicted = written.time(of.predicted_s) if of.predicted_s else "–"
        return self.t(
            f"`{of.case}` waits for its loader, whose own time is not predicted:"
            f" {written.time(of.step_s)} as it is, {predicted} predicted without it. Its gains"
            f" ({number}) are in the list at the end, marked *, and in nothing else.",
            f"`{of.case}` 等待数据加载，而加载本身的用时不在预测之内：原始代码"
            f" {written.time(of.step_s)}，不计加载的预测为 {predicted}。其 {number} 项提速"
            "只列在末尾的列表中（标 *），不计入其他统计。",
        )

    def _learnt(self, of: Original) -> str:
        predicted = written.time(of.predicted_s) if of.predicted_s else "–"
        return self.t(
            f"`{of.case}` showed what no model knew: a step takes {written.time(of.step_s)} where the"
            " process has met the cache's length before, and up to"
            f" {written.time(of.slowest_s)} where it is new, since cuDNN then plans its attention anew"
            f" (34 ms). Now that is predicted ({predicted} as it is), so these rows are no evidence"
            " any more; and which of their blocks had met their lengths is not known. They are in"
            " the list at the end, marked *, and in nothing else.",
            f"`{of.case}` 揭示了此前模型不知道的事：缓存长度若进程已经遇到过，每步"
            f" {written.time(of.step_s)}；若是新长度，cuDNN 要重新规划注意力（34 ms），最多"
            f" {written.time(of.slowest_s)}。现在已能预测（原始代码 {predicted}），因此这些行不再是"
            "证据；而且不知道哪些块遇到的是旧长度。"
            "它们只列在末尾的列表中（标 *），不计入其他统计。",
        )

    def _sized(self) -> str:
        """Why a loop over experts is predicted too fast where its products are quick."""
        if not any(gain.case == SIZED for gain in self.found.gains):
            return ""
        recorded = "../validation/recordings/h200/micro/data_sized.json"
        return self.t(
            f"`{SIZED}` sends other tokens to each expert in every step, and cuBLAS loads new"
            " kernels for products of new sizes for about a hundred steps"
            f" ([measured]({recorded})); these were timed after about sixty. A forecast is of the"
            " steps after that, so that 16-bit products (133 kernels in three steps) are predicted"
            " too fast here, and TF32's (19 kernels) are not.",
            f"`{SIZED}` 每步把不同的词元送给各个专家，而 cuBLAS 在大约一百步内不断为新大小的乘法"
            f"加载内核（[实测]({recorded})）；这里在约六十步之后计时。预测针对的是那之后的步，"
            "因此 16 位乘法（三步中有 133 个内核）在这里预测偏快，TF32（19 个内核）则不然。",
        )

    def _median(self) -> str:
        """The same, had the median block been taken."""
        got = summary(self.typical.counted) if self.typical is not None else None
        if got is None:
            return ""
        return self.t(
            "With each one's median block in place of the least: median error"
            f" {percent(got.median)}, mean {percent(got.mean)}, {percent(got.inside)} in the 80 %"
            " interval.",
            f"若改用各自的中位块：误差中位数 {percent(got.median)}，平均 {percent(got.mean)}，"
            f"{percent(got.inside)} 在 80 % 区间内。",
        )

    def _unmeasured(self) -> str:
        parts, number = [], len(self.found.missing)
        if number:
            cases = dict.fromkeys(case for case, _ in self.found.missing)
            told = "; ".join(
                f"{case}: {named([n[-1] for c, n in self.found.missing if c == case])}"
                for case in cases
            )
            title = self.t(
                f"Predicted for these cases, but not measured ({number})",
                f"这些案例中有预测但未测量的（{number} 项）",
            )
            why = self.t(
                "Left out: what searches for minutes, needs another package or another process's"
                " environment; for the others the time was over.",
                "未测：需搜索数分钟、需要其他软件包或需另设进程环境的；其余因时间用完。",
            )
            parts.append(f"<details><summary>{title}</summary>\n\n{why} {told}.\n\n</details>")
        if self.found.unforecast:
            parts.append(
                self.t(
                    f"Measured without a kept forecast, left out: {self.found.unforecast}.",
                    f"已测量但没有保存的预测，未计入：{self.found.unforecast}。",
                )
            )
        return "\n\n".join(parts)

    def _failures(self) -> str:
        if not self.found.failures:
            return ""
        heads = self.t("case|could not be run|error", "案例|无法运行|错误").split("|")
        rows = [[f.case, named(f.names), cell(without_paths(f.error))] for f in self.found.failures]
        return table(heads, rows, "lll")
