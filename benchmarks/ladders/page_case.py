"""The ladders' page: one case, its steps, what failed, its scripts."""

from __future__ import annotations

from collections.abc import Iterable

from ladder_results import Found, without_paths
from page_words import LINKS, VERDICTS, InLanguage, cell, interval, named, table, times

from gpuscope.advice.results import Parity, Trial
from gpuscope.advice.source.patches import parts_of
from gpuscope.advice.trial.ladder_figures import OUTCOMES, predicted_step_s, quantity, share_of
from gpuscope.advice.trial.rungs import Rung, product
from gpuscope.document import format as written
from gpuscope.document.text import render

__all__ = ["CaseSection"]

LITTLE = 0.01
"""A predicted gain or loss below it is called little."""


class CaseSection(InLanguage):
    """One language of every case's section."""

    def text(self, found: Found) -> str:
        """All of it."""
        case = found.case
        title = case.zh if self.zh else case.en
        parts = [f'<a id="{case.name}"></a>\n\n## {title}']
        if found.rungs:
            parts.append(self._step_table(found))
        elif found.short_of_time:
            parts.append(
                self.t(
                    "The time was over before anything could be kept.",
                    "在得到任何可保留的改动之前时间已用完。",
                )
            )
        else:
            parts.append(
                self.t(
                    "Nothing of what was tried makes it better; it was left as it is.",
                    "试过的改动都没有带来改善；保持原样。",
                )
            )
        parts += [self._agreement(found), self._refused(found), self._untried(found)]
        return "\n\n".join(part for part in [*parts, *self.scripts(found)] if part)

    def _step_table(self, found: Found) -> str:
        heads = self.t(
            "change|predicted|measured|95 % interval|step|results",
            "改动|预测|实测|95% 区间|步时间|结果",
        ).split("|")
        assert found.ladder is not None
        before = written.time(found.ladder.baseline.step_s)
        expected = predicted_step_s(found.ladder)
        predicted = written.time(expected) if expected else ""
        start = [self.t("as it is", "原始代码"), predicted, "", "", before, ""]
        rows = [
            [
                self._rung(rung),
                times(rung.expected),
                times(rung.speedup),
                interval(rung.low, rung.high),
                written.time(rung.step_s),
                self._result(rung, found.parity),
            ]
            for rung in found.rungs
        ]
        return table(heads, [start, *rows, *self._whole(found)], "lrrrrl")

    def _rung(self, rung: Rung) -> str:
        """What one row adds or leaves out; the last one, where it is what the others leave."""
        if not rung.added:
            return self.t(f"without {named(rung.removed)}", f"去掉 {named(rung.removed)}")
        left = self.t(" (what the others leave of the whole)", "（整体提速中其余各级之外的部分）")
        return f"+ {named(rung.added)}{left if rung.trial is None and rung.expected else ''}"

    def _result(self, rung: Rung, parity: Parity | None) -> str:
        return self._verdict(rung.trial.parity if rung.trial is not None else parity)

    def _whole(self, found: Found) -> list[list[str]]:
        """Original against best, where that was measured beside the rungs."""
        ladder = found.told
        if ladder is None or not ladder.speedup or len(found.rungs) < 2:
            return []
        if abs(product(found.rungs) / ladder.speedup - 1) < 1e-9:
            return []
        name = self.t("original against best, in pairs", "原始与最佳，成对测量")
        step = written.time(ladder.baseline.step_s / ladder.speedup)
        gain = [times(ladder.speedup), interval(ladder.low, ladder.high)]
        return [[name, "", *gain, step, self._verdict(found.parity)]]

    def _verdict(self, parity: Parity | None) -> str:
        return VERDICTS[parity.verdict][self.zh] if parity is not None else "–"

    def _agreement(self, found: Found) -> str:
        parity = found.parity
        if parity is None or not parity.compared:
            return ""
        told = [
            f"{render(quantity(c.what), self.lang)} {share_of(c.largest)} ({share_of(c.tolerance)})"
            for c in parity.compared
        ]
        return self.t(
            f"Largest difference from the original's results (allowed): {'; '.join(told)}.",
            f"与原始结果的最大差异（允许值）：{'；'.join(told)}。",
        )

    def _refused(self, found: Found) -> str:
        if not found.refused:
            return ""
        heads = self.t(
            "tried, not kept|outcome|predicted|measured|why", "试过但未保留|结果|预测|实测|原因"
        ).split("|")
        rows = [
            [
                named(t.added),
                render(OUTCOMES[t.outcome], self.lang),
                times(t.expected),
                times(t.speedup),
                cell(render(t.why, self.lang)),
            ]
            for t in found.refused
        ]
        return table(heads, rows, "llrrl")

    def _untried(self, found: Found) -> str:
        if not found.untried:
            return ""

        def told(trials: Iterable[Trial]) -> str:
            return ", ".join(f"{named(t.added)} {times(t.expected)}" for t in trials)

        parts = []
        gain = [t for t in found.untried if t.expected and t.expected >= 1 + LITTLE]
        harm = [t for t in found.untried if t.expected and t.expected <= 1 - LITTLE]
        little = len(found.untried) - len(gain) - len(harm)
        if gain:
            parts.append(self.t(f"to gain {told(gain)}", f"有收益 {told(gain)}"))
        if harm:
            parts.append(self.t(f"to harm {told(harm)}", f"有害 {told(harm)}"))
        if little:
            parts.append(
                self.t(f"little or nothing: {little} more", f"几乎没有影响：另 {little} 项")
            )
        return self.t(
            f"Only predicted, alone, against the code as it is: {'; '.join(parts)}.",
            f"只做了预测（单独，对比原始代码）：{'；'.join(parts)}。",
        )

    def scripts(self, found: Found) -> list[str]:
        """Links; and what could not be measured."""
        case, parts = found.case, []
        results = f"{LINKS}/results/ladders/{case.name}"
        links = [f"[{self.t('naive', '朴素')}]({LINKS}/ladders/naive/{case.name}.py)"]
        if not case.expert:
            links.append(f"[{self.t('expert', '专家')}]({LINKS}/ladders/expert/{case.name}.py)")
        if found.ladder is not None:
            links.append(f"[{self.t('ladder', '阶梯')}]({results}/ladder.json)")
        if found.patch:
            links.append(f"[{self.t('patch', '补丁')}]({results}/patch.diff){self._plain(found)}")
        for what, script in (("naive", found.naive), ("expert", found.expert)):
            if script is not None and script.error:
                told = cell(without_paths(script.error))[-300:]
                parts.append(
                    self.t(
                        f"The {what} script could not be measured: {told}",
                        f"{what} 脚本无法测量：{told}",
                    )
                )
        return [*parts, " · ".join(links)]

    def _plain(self, found: Found) -> str:
        """What of its patch is plain PyTorch, and whether it was run."""
        assert found.ladder is not None
        written, applied, helped = parts_of(found.ladder.patch)
        told = []
        if applied or helped:
            names = named((*helped, *applied))
            told.append(self.t(f"needs gpuscope for {names}", f"{names} 需要 gpuscope"))
        elif written:
            told.append(self.t("plain PyTorch", "纯 PyTorch"))
        if not any(trial.purpose == "patch" for trial in found.ladder.trials):
            told.append(self.t("not run itself", "补丁本身未运行"))
        if not told:
            return ""
        return self.t(f" ({'; '.join(told)})", f"（{'；'.join(told)}）")
