"""The page of single changes, predicted and measured: `python benchmarks/ladders/singles_page.py`.

Reads `benchmarks/results/ladders/singles*.jsonl` (of `singles.py`) and the kept forecasts
(`advice/CASE.json`), and writes `docs/single-changes.md` and its Chinese twin. `--check` writes
nothing and fails where a page differs. `page.py` makes these pages, too, since the ladders' page
tells their figures.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "src"), str(HERE)]

from page_words import LINKS, named, percent, table  # noqa: E402
from single_gains import APART, BIG, NEAR, NOT_COUNTED, Evidence, SingleGain, order, read, summary  # noqa: E402
from singles_method import Method, OfEvidence  # noqa: E402
from singles_rows import KINDS, Rows  # noqa: E402

from gpuscope.advice.registry import find  # noqa: E402
from gpuscope.atomic import write_atomically  # noqa: E402
from gpuscope.document import format as written  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "ladders"
ADVICE = HERE / "advice"
MISSES = 10


@cache
def evidence(typical: bool = False) -> Evidence:
    """What is kept in the repository; `typical` as in `single_gains.read`."""
    return read(RESULTS, ADVICE, typical)


class SinglesPage(OfEvidence):
    """The whole page, in one language."""

    def text(self) -> str:
        """The whole page."""
        t = self.t
        parts = [
            t("# Single changes: predicted and measured", "# 单项改动：预测与实测"),
            t("[中文](single-changes.zh-CN.md)", "[English](single-changes.md)"),
            self._intro(),
            self._headline(),
            Method(self.found, self.zh, self.typical).text(),
            self._by_kind(),
            self._by_case(),
            self._misses(),
            Rows(self.zh).harm(self.found),
            self._every(),
            self._again(),
        ]
        return "\n\n".join(part for part in parts if part) + "\n"

    def short(self) -> str:
        """For the ladders' page: a sentence or two; "" where nothing was measured."""
        whole, big = summary(self.found.counted), summary(_big(self.found.counted))
        if whole is None or big is None:
            return ""
        return self.t(
            "One change at a time on the naive scripts, measured apart from the ladders"
            f" ([single-changes.md](single-changes.md)): {whole.count} gains, median error"
            f" {percent(whole.median)}, mean {percent(whole.mean)}; of the {big.count} that gain or"
            f" lose more than {BIG * 100:.0f} %: median {percent(big.median)}, mean"
            f" {percent(big.mean)}. {percent(whole.inside)} lie in their 80 % interval.",
            "在朴素脚本上逐项单独改动，与阶梯分开测量"
            f"（[single-changes.zh-CN.md](single-changes.zh-CN.md)）：{whole.count} 项提速，"
            f"误差中位数 {percent(whole.median)}，平均 {percent(whole.mean)}；其中增减超过"
            f" {BIG * 100:.0f} % 的 {big.count} 项：中位数 {percent(big.median)}，平均"
            f" {percent(big.mean)}。{percent(whole.inside)} 落在各自的 80 % 区间内。",
        )

    # -- how well --------------------------------------------------------------------------------

    def _intro(self) -> str:
        devices = ", ".join(self.found.devices)
        return self.t(
            "`gpuscope advise` says of each change what it gains alone"
            f" ([advise.md](advise.md)). Here the [naive scripts]({LINKS}/ladders/naive) of the"
            f" [ladders](ladders.md) ran on {devices} with one change at a time, also with those"
            " that are to hurt, and every gain is held against its"
            f" [kept forecast]({LINKS}/ladders/advice). A gain is the time of the original over the"
            " time with the change, for the same work; an error is predicted over measured, less 1."
            " Which came first, forecast or measurement, the history of these files shows."
            f" [singles_page.py]({LINKS}/ladders/singles_page.py) makes this page from [what"
            f" singles.py measured]({LINKS}/results/ladders/singles.jsonl).",
            "`gpuscope advise` 给出每项改动单独的收益（[advise.zh-CN.md](advise.zh-CN.md)）。这里把"
            f"[阶梯](ladders.zh-CN.md)的[朴素脚本]({LINKS}/ladders/naive)在 {devices} 上每次只做"
            "一项改动来运行，预测有害的也不例外，并把每个提速与"
            f"[保存的预测]({LINKS}/ladders/advice)对照。"
            "提速是完成同样工作时原始用时除以改动后用时；误差是预测除以实测再减 1。"
            "预测与实测孰先孰后，见这些文件的历史。本页由"
            f" [singles_page.py]({LINKS}/ladders/singles_page.py) 根据 [singles.py"
            f" 的实测结果]({LINKS}/results/ladders/singles.jsonl)生成。",
        )

    def _headline(self) -> str:
        whole = summary(self.found.counted)
        if whole is None:
            return self.t("Nothing was measured yet.", "尚无实测结果。")
        steady, rough = self.found.steady, named(self.found.unsteady)
        big = f"{BIG * 100:.0f} %"
        groups = [
            (self.t("all", "全部"), self.found.counted),
            (
                self.t(f"that gain or lose more than {big}", f"增减超过 {big} 的"),
                _big(self.found.counted),
            ),
        ]
        if rough:
            groups += [
                (self.t(f"all without {rough}", f"全部，不含 {rough}"), steady),
                (self.t(f"of these, more than {big}", f"其中增减超过 {big} 的"), _big(steady)),
            ]
        rows = [self._figures(name, gains) for name, gains in groups if gains]
        heads = self.t(
            f"gains|number|median error|mean error|within {NEAR * 100:.0f} %|in the 80 % interval"
            "|in it, widened by the original's spread|meets what the blocks leave open"
            "|predicted too high",
            f"提速|个数|误差中位数|平均误差|误差不超过 {NEAR * 100:.0f} %|在 80 % 区间内"
            "|区间按原始代码波动放宽后|与计时块留出的范围相交|预测偏高",
        ).split("|")
        parts = [table(heads, rows, "lrrrrrrrr"), self._nothing(), self._width(whole.inside)]
        return "\n\n".join(parts)

    def _nothing(self) -> str:
        """How far off it is to say that nothing gains anything."""
        told = []
        for gains in (self.found.counted, _big(self.found.counted)):
            errors = [abs(1 / gain.measured - 1) for gain in gains] or [0.0]
            told.append([percent(statistics.median(errors)), percent(statistics.fmean(errors))])
        (middle, mean), (big_middle, big_mean) = told
        return self.t(
            f"For comparison: to say 1× of every change errs by {middle} in the median and {mean}"
            f" on average; of those that gain or lose more than {BIG * 100:.0f} %, by {big_middle}"
            f" and {big_mean}.",
            f"作为对照：若认为每项改动都是 1×，误差中位数为 {middle}，平均 {mean}；对增减超过"
            f" {BIG * 100:.0f} % 的改动则为 {big_middle} 与 {big_mean}。",
        )

    def _figures(self, name: str, gains: Sequence[SingleGain]) -> list[str]:
        got = summary(gains)
        assert got is not None
        shares = (got.near, got.inside, got.nearly, got.meets, got.over)
        return [name, str(got.count), percent(got.median), percent(got.mean), *map(percent, shares)]

    def _width(self, inside: float) -> str:
        """What the share within the intervals says of them."""
        told = percent(inside)
        if inside < 0.7:
            verdict = self.t("they are too narrow", "区间过窄")
        elif inside > 0.9:
            verdict = self.t("they are wider than they say", "区间比其含义更宽")
        else:
            verdict = self.t("they are about as wide as they say", "区间宽度与其含义大致相符")
        return self.t(
            f"Of 80 % intervals 80 % should hold what is measured; {told} do: {verdict}."
            " They hold the 1 % by which two measurements of a quiet machine differ, not what"
            " disturbs a busy one. What its blocks leave open reaches from the original's"
            " fastest block over the change's median to the original's median over the change's"
            " fastest.",
            f"80 % 区间应有 80 % 包含实测值；实际为 {told}：{verdict}。区间含有安静机器上两次测量"
            "相差的 1 %，不含繁忙机器受到的干扰。"
            "计时块留出的范围，是从原始代码最快的块除以改动的中位块，"
            "到原始代码的中位块除以改动最快的块。",
        )

    # -- tables ----------------------------------------------------------------------------------

    def _by_kind(self) -> str:
        heads = self.t(
            "kind|gains|median error|mean error|largest|in the 80 % interval|predicted too high",
            "类别|个数|误差中位数|平均误差|最大|在 80 % 区间内|预测偏高",
        ).split("|")
        found = {
            kind: summary([g for g in self.found.counted if find(g.change).group == kind])
            for kind in KINDS
        }
        got = {kind: of for kind, of in found.items() if of is not None}
        rows = [
            [
                KINDS[kind][self.zh],
                str(of.count),
                percent(of.median),
                percent(of.mean),
                percent(of.largest),
                percent(of.inside),
                percent(of.over),
            ]
            for kind, of in got.items()
        ]
        section = self._section("## By kind of change", "## 按改动类别", heads, rows, "lrrrrrr")
        if not got:
            return section
        worst = max(got, key=lambda kind: got[kind].median)
        of, name = got[worst], KINDS[worst][self.zh]
        told, over = percent(of.median), percent(of.over)
        return f"{section}\n\n" + self.t(
            f"Furthest off in the median is {name}: by {told}, and too high in {over} of its"
            f" {of.count} gains.",
            f"误差中位数最大的是{name}：{told}，其 {of.count} 项提速中 {over} 预测偏高。",
        )

    def _by_case(self) -> str:
        heads = self.t(
            "case|as it is, predicted|measured|spread|gains|median error|largest"
            "|in the 80 % interval|pairs in order",
            "案例|原始代码，预测|实测|波动|个数|误差中位数|最大|在 80 % 区间内|顺序一致的对",
        ).split("|")
        rows = []
        for of in self.found.originals:
            gains = [g for g in self.found.counted if (g.source, g.case) == (of.source, of.case)]
            got, pairs = summary(gains), order(gains)
            name = of.case + (" *" if of.case in NOT_COUNTED else "")
            row = [
                name,
                written.time(of.predicted_s) if of.predicted_s else "–",
                written.time(of.step_s),
                percent(of.spread),
            ]
            row += (
                [
                    str(got.count),
                    percent(got.median),
                    percent(got.largest),
                    percent(got.inside),
                    f"{pairs.same} / {pairs.pairs}",
                ]
                if got is not None
                else ["–"] * 5
            )
            rows.append(row)
        section = self._section("## Case by case", "## 逐个案例", heads, rows, "lrrrrrrrr")
        return f"{section}\n\n{self._order()}" if section else ""

    def _order(self) -> str:
        pairs, calm = order(self.found.counted), order(self.found.steady)
        if not pairs.pairs:
            return ""
        apart, share = f"{APART * 100:.0f} %", percent(pairs.same / pairs.pairs)
        text = self.t(
            "Spread: by how much the original differs from itself, its slowest look over its"
            f" fastest. Order: of all pairs of a case's changes whose measured gains differ by more"
            f" than {apart}, {pairs.same} of {pairs.pairs} ({share}) were predicted in the same"
            " order; two that were predicted to gain the same are not.",
            "波动：原始代码自身的差异，即最慢一次与最快一次之比减 1。顺序：同一案例中实测提速相差"
            f"超过 {apart} 的改动对共 {pairs.pairs} 对，其中 {pairs.same} 对（{share}）的预测顺序"
            "相同；预测相同的两项不算顺序相同。",
        )
        if pairs == calm or not calm.pairs:
            return text
        told = f"{calm.same} / {calm.pairs} ({percent(calm.same / calm.pairs)})"
        rough = named(self.found.unsteady)
        return text + self.t(f" Without {rough}: {told}.", f"不含 {rough}：{told}。")

    def _misses(self) -> str:
        worst = sorted(self.found.counted, key=lambda g: -abs(g.error))[:MISSES]
        if not worst:
            return ""
        title = self.t(f"## The {len(worst)} largest misses", f"## 误差最大的 {len(worst)} 项")
        return f"{title}\n\n{Rows(self.zh).list(worst)}"

    def _every(self) -> str:
        if not self.found.gains:
            return ""
        number = len(self.found.gains)
        title = self.t(
            f"Every gain that was predicted and measured ({number})",
            f"所有既有预测又有实测的提速（{number} 项）",
        )
        listed = Rows(self.zh).list(self.found.gains)
        return f"<details><summary>{title}</summary>\n\n{listed}\n\n</details>"

    def _section(
        self, en: str, zh: str, heads: Sequence[str], rows: Sequence[Sequence[str]], sides: str
    ) -> str:
        return f"{self.t(en, zh)}\n\n{table(heads, rows, sides)}" if rows else ""

    def _again(self) -> str:
        return "\n".join(
            [
                self.t("## Run it again", "## 重新运行"),
                "",
                "```",
                "python benchmarks/ladders/singles.py gpt2 resnet50 --slots 2 --seconds 500 \\",
                "  --out benchmarks/results/ladders/singles-mine.jsonl",
                "python benchmarks/ladders/page.py",
                "```",
            ]
        )


def _big(gains: Sequence[SingleGain]) -> list[SingleGain]:
    return [gain for gain in gains if gain.big]


def write(check: bool) -> bool:
    """Write both languages, unless it is only checked; returns whether they were so already."""
    same = True
    for zh, ending in ((False, ".md"), (True, ".zh-CN.md")):
        target = ROOT / "docs" / f"single-changes{ending}"
        text = SinglesPage(evidence(), zh, evidence(typical=True)).text()
        same &= target.is_file() and target.read_text(encoding="utf-8") == text
        if not check:
            write_atomically(target, text)
    return same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    if not write(given.check) and given.check:
        again = "python benchmarks/ladders/singles_page.py"
        raise SystemExit(f"docs/single-changes.md or its twin differs: {again}")


if __name__ == "__main__":
    main()
