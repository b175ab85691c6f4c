"""The page of single changes: its list of gains, and what harms."""

from __future__ import annotations

from collections.abc import Iterable

from page_words import InLanguage, named, percent, signed, table
from single_gains import HARM, Evidence, SingleGain

__all__ = ["EFFECTS", "KINDS", "Rows"]

KINDS = {
    "precision": ("precision", "精度"),
    "compilation": ("compilation", "编译"),
    "operators": ("operators", "算子"),
    "input": ("input", "输入"),
    "memory": ("memory", "显存"),
    "inference": ("inference", "推理"),
    "distributed": ("distributed", "分布式"),
}
EFFECTS = {
    "helps": ("helps", "有帮助"),
    "little": ("little", "影响小"),
    "hurts": ("hurts", "有害"),
    "does not fit": ("does not fit", "放不下"),
    "fails": ("fails", "失败"),
}
FORESEEN = {
    "gain": ("no: a gain", "否：预测有收益"),
    "loss": ("yes", "是"),
    "nothing": ("no: next to nothing", "否：预测几乎无影响"),
}


class Rows(InLanguage):
    """One language of the lists of gains."""

    def list(self, gains: Iterable[SingleGain], judged: bool = False) -> str:
        """A table of gains.

        Args:
            gains: in the order to be shown.
            judged: also whether a loss was foreseen, beside its original's spread.
        """
        heads = self.t(
            "case|change|said|predicted|80 % interval|measured|error",
            "案例|改动|预测结论|预测|80 % 区间|实测|误差",
        )
        if judged:
            heads += self.t("|foreseen?|original's spread", "|是否预见|原始代码波动")
        rows = [
            self._row(g) + ([FORESEEN[g.foreseen][self.zh], percent(g.spread)] if judged else [])
            for g in gains
        ]
        return table(heads.split("|"), rows, "lllrrrr" + ("lr" if judged else ""))

    def _row(self, gain: SingleGain) -> list[str]:
        mark = "" if gain.inside else " ✗"
        return [
            gain.case + ("" if gain.counts else " *"),
            named(gain.names),
            EFFECTS[gain.effect][self.zh],
            f"{gain.predicted:.3f}×",
            f"{gain.low:.3f}–{gain.high:.3f}{mark}",
            f"{gain.measured:.3f}×",
            signed(gain.error),
        ]

    def harm(self, found: Evidence) -> str:
        """What was measured to lose, and whether it was foreseen; and the reverse."""
        if not found.counted:
            return ""
        lost = sorted(
            (g for g in found.counted if g.came == "loss"), key=lambda gain: gain.measured
        )
        denied = [g for g in found.counted if g.denied]
        parts = [self.t("## What harms", "## 有害的改动"), self._crossed(found)]
        if lost:
            parts += [self._foreseen(lost) + self._small(lost, found), self.list(lost, True)]
        parts.append(
            self.t(
                f"Said to hurt, but measured to gain: {len(denied) or 'none'}.",
                f"预测“有害”而实测有收益的：{len(denied) or '没有'}。",
            )
        )
        return "\n\n".join([*parts, self.list(denied)] if denied else parts)

    def _foreseen(self, lost: list[SingleGain]) -> str:
        amount, said = f"{HARM * 100:.0f} %", [g.foreseen for g in lost]
        yes, none, gain = (said.count(v) for v in ("loss", "nothing", "gain"))
        return self.t(
            f"Changes measured to lose more than {amount}: {len(lost)}. Predicted for them: a loss"
            f" of more than {amount} ({yes}), a gain or loss of at most that ({none}), a gain of"
            f" more ({gain}).",
            f"实测损失超过 {amount} 的改动有 {len(lost)} 项：其中 {yes} 项预测损失超过 {amount}，"
            f"{none} 项预测增减不超过它，{gain} 项预测收益更大。",
        )

    def _small(self, lost: list[SingleGain], found: Evidence) -> str:
        """How many that were not foreseen could be the original's own spread."""
        missed = [g for g in lost if g.foreseen != "loss"]
        calm = [g for g in missed if g in found.steady]
        small = sum(1 / g.measured - 1 <= g.spread for g in calm)
        if not missed:
            return ""
        text = self.t(f" Not foreseen: {len(missed)}", f"未预见：{len(missed)} 项")
        if len(calm) < len(missed):
            number, rough = len(missed) - len(calm), named(found.unsteady)
            text += self.t(f", of which {number} of {rough}", f"，其中 {number} 项属于 {rough}")
        if calm:
            other = len(calm) < len(missed)
            text += self.t(
                f"; {small} of the{' other' if other else ''} {len(calm)} lose no more than their"
                " original differs from itself",
                f"；{'其余' if other else '这'} {len(calm)} 项中有 {small}"
                " 项的损失不超过原始代码自身的差异",
            )
        return text + self.t(".", "。")

    def _crossed(self, found: Evidence) -> str:
        """What was said of changes, by what came of them."""
        amount = f"{HARM * 100:.0f} %"
        heads = self.t(
            f"said|gained more than {amount}|within {amount}|lost more than {amount}",
            f"预测结论|实测增益超过 {amount}|不超过 {amount}|损失超过 {amount}",
        ).split("|")
        rows = []
        for effect, words in EFFECTS.items():
            came = [g.came for g in found.counted if g.effect == effect]
            if came:
                numbers = [str(came.count(v)) for v in ("gain", "nothing", "loss")]
                rows.append([words[self.zh], *numbers])
        return table(heads, rows, "lrrr")
