"""The page of the ladders, from what was measured: `python benchmarks/ladders/page.py`.

Reads `benchmarks/results/ladders/CASE/ladder.json` (of `gpuscope optimize`) and `measured.jsonl`
there (the scripts measured as they are), and writes `docs/ladders.md`, its Chinese twin, and the
table of both READMEs. `--take FOLDER ...` first copies the ladders of a run (FOLDER/CASE/...) and
their patches, without that machine's paths. `--check` writes nothing and fails where a page
differs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "src"), str(HERE), str(ROOT / "validation")]

from ladder_results import MEASURED, Found, Gain, find, gains, take, without_paths  # noqa: E402

from gpuscope.advice.ladder_figures import (  # noqa: E402
    OUTCOMES,
    predicted_step_s,
    quantity,
    share_of,
)
from gpuscope.advice.patching import parts_of  # noqa: E402
from gpuscope.advice.results import Parity, Trial  # noqa: E402
from gpuscope.atomic import write_atomically  # noqa: E402
from gpuscope.explain.numbers import seconds, size, three  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "ladders"
LINKS = "../benchmarks"
TARGET = 0.15
"""Median error of predicted gains of single changes that was aimed at."""
LITTLE = 0.01
"""A predicted gain or loss below it is called little."""
EXPERT = 0.95
"""Share of an expert's speed that was aimed at."""

_VERDICTS = {
    "agrees": ("agree", "一致"), "differs": ("differ", "不一致"),
    "overflow": ("overflow", "溢出"), "distribution": ("agree in distribution", "分布一致"),
    "unchecked": ("not checked", "未检查"),
}  # fmt: skip


class Page:
    """One language of the page.

    Args:
        found: all cases.
        zh: in Chinese.
        recorded: rows of `validation/results/gains.json`.
    """

    def __init__(self, found: Sequence[Found], zh: bool, recorded: Sequence[dict] = ()) -> None:
        self.found, self.zh, self.recorded = found, zh, recorded

    def t(self, en: str, zh: str) -> str:
        """The words of this language."""
        return zh if self.zh else en

    def text(self) -> str:
        """The whole page."""
        t = self.t
        twin = t("[中文](ladders.zh-CN.md)", "[English](ladders.md)")
        head = t("# Ladders: naive scripts, optimized, beside an expert's",
                 "# 阶梯：朴素脚本、自动优化与专家手工优化的对比")  # fmt: skip
        intro = t(
            "Ordinary scripts as people first write them (float32, attention by hand, pageable"
            " input, the loss read every step) were given to `gpuscope optimize`; an expert tuned"
            " the same models by hand, with PyTorch alone. The scripts:"
            f" [naive]({LINKS}/ladders/naive), [expert]({LINKS}/ladders/expert). How it works:"
            " [optimize.md](optimize.md). This page is made by"
            f" [page.py]({LINKS}/ladders/page.py) from [what was"
            f" measured]({LINKS}/results/ladders).",
            "把人们最初写出的普通脚本（float32、手写注意力、可分页内存输入、每步读取损失）交给"
            " `gpuscope optimize`；同样的模型由专家只用 PyTorch 手工优化。脚本："
            f"[朴素]({LINKS}/ladders/naive)、[专家]({LINKS}/ladders/expert)。工作原理："
            "[optimize.zh-CN.md](optimize.zh-CN.md)。本页由"
            f" [page.py]({LINKS}/ladders/page.py) 根据[实测结果]({LINKS}/results/ladders)生成。",
        )
        parts = [
            head, twin, intro, self._where(), self.table(), self._sum(), self._hosts(), self._ddp(),
            self._accuracy(),
        ]  # fmt: skip
        parts += [self._case(each) for each in self.found if each.ladder is not None]
        parts += [self._not_run(), self._again()]
        return "\n\n".join(part for part in parts if part) + "\n"

    # -- all cases -------------------------------------------------------------------------------

    def table(self) -> str:
        """One row a case."""
        heads = self.t(
            "case|as first written|by `optimize`|by an expert|of the expert's|gain|predicted"
            "|results|memory",
            "案例|最初写法|`optimize`|专家|达到专家的|提速|预测|结果|显存",
        ).split("|")
        return _table(heads, (self._row(each) for each in self.found), "lrrrrrrll")

    def _hosts(self) -> str:
        """What to know of the machine before its figures are read."""
        return self.t(
            "The host was slow: eager steps that Python sets the pace of took 1.2 to 4.5 times as"
            " long there as the calibrated host's (Llama decoding as first written: 66.1 ms,"
            " predicted 14.6). That is why changes that free the host gained more than predicted,"
            " and `bf16-autocast` alone, which leaves the host in front, less. `gpuscope bench"
            " --save` measures the host at hand; it was not run there.",
            "那台主机较慢：由 Python 决定节奏的即时执行步骤比标定主机慢 1.2 到 4.5 倍（最初写法的"
            " Llama 解码为 66.1 ms，预测 14.6 ms）。因此解放主机的改动收益高于预测，而单独使用"
            " `bf16-autocast`（之后由主机决定节奏）收益低于预测。`gpuscope bench --save` 可以测量"
            "本机主机；在那台机器上没有运行。",
        )

    def _ddp(self) -> str:
        """Trials of sets chosen by hand on two GPUs (`ddp.py`)."""
        path = RESULTS / "ddp_gpt2.json"
        if not path.exists():
            return ""
        rows = json.loads(path.read_text(encoding="utf-8"))
        before = rows[0]["measured"]["step_s"]
        said = []
        for row in rows[1:]:
            names = ", ".join(f"`{name}`" for name in row["names"])
            verdict = _VERDICTS[row["parity"]["verdict"]][self.zh] if row["parity"] else "–"
            said.append(
                self.t(
                    f"{names}: {three(row['speedup'])}× ({seconds(row['measured']['step_s'])};"
                    f" results {verdict})",
                    f"{names}：{three(row['speedup'])}×（{seconds(row['measured']['step_s'])}；"
                    f"结果{verdict}）",
                )
            )
        return self.t(
            f"GPT-2 small under DDP on two GPUs takes {seconds(before)} a step as first written."
            f" Sets chosen by hand, tried in pairs ({LINKS}/ladders/ddp.py): {'; '.join(said)}."
            " There was no time for compiling there, nor a machine of eight.",
            f"GPT-2 small 在两块 GPU 上用 DDP，最初写法每步 {seconds(before)}。手工选择的组合，"
            f"成对试验（{LINKS}/ladders/ddp.py）：{'；'.join(said)}。没有时间试编译，也没有八卡机器。",
        )

    def short(self) -> str:
        """For the README: what was run, in five columns."""
        ran = [each for each in self.found if each.ladder is not None]
        if not ran:
            return self.t("The ladders were not run yet.", "这些阶梯尚未运行。")
        heads = self.t(
            "case|as first written|by `optimize`|by an expert|of the expert's",
            "案例|最初写法|`optimize`|专家|达到专家的",
        ).split("|")
        place = self.t("docs/ladders.md", "docs/ladders.zh-CN.md")
        return _table(heads, (self._row(each, place)[:5] for each in ran), "lrrrr")

    def _row(self, found: Found, place: str = "") -> list[str]:
        name = found.case.zh if self.zh else found.case.en
        if found.ladder is not None:
            name = f"[{name}]({place}#{found.case.name})"
        end = found.best
        gain = found.speedup
        kept = "" if gain is None else f"{three(gain[1])}× ({three(gain[0])}–{three(gain[2])})"
        if end is None and found.ours_s is not None:
            kept = self.t("nothing found in time", "时间内未找到") if found.short_of_time else (
                self.t("nothing to change", "无需改动"))  # fmt: skip
        predicted = f"{three(found.predicted)}×" if found.predicted else "–"
        return [
            name, self._rate(found, found.naive_s), self._ours(found),
            self._rate(found, found.expert_s), _of_expert(found), kept or "–", predicted,
            self._verdict(found.parity), _memory(found),
        ]  # fmt: skip

    def _ours(self, found: Found) -> str:
        if found.ladder is None:
            return self.t("not run", "未运行")
        if found.ours_s is None:
            return self.t("cut off", "被中断")
        return self._rate(found, found.ours_s) + (" ¹" if found.short_of_time else "")

    def _rate(self, found: Found, step_s: float | None) -> str:
        if step_s is None:
            return self.t("not measured", "未测")
        unit = found.case.unit_zh if self.zh else found.case.unit_en
        return f"{_count(found.case.per_step / step_s)} {unit}/s"

    def _verdict(self, parity: Parity | None) -> str:
        if parity is None:
            return "–"
        return f"{_VERDICTS[parity.verdict][self.zh]} ({parity.numerics})"

    def _where(self) -> str:
        devices = dict.fromkeys(f.ladder.device for f in self.found if f.ladder is not None)
        if not devices:
            return self.t("No ladder was run yet; scripts were measured as they are.",
                          "尚未运行任何阶梯；脚本按原样测量。")  # fmt: skip
        told = ", ".join(devices)
        return self.t(
            f"Measured on {told}. A gain is the median of interleaved pairs, original against best,"
            " with its 95 % interval; rates are of single measurements. Memory is what the"
            " allocator held (reserved).",
            f"在 {told} 上测量。提速是原始与最佳交错成对测量的中位数，附 95% 区间；速度为单次测量。"
            "显存为分配器所占（reserved）。",
        )

    def _sum(self) -> str:
        shares = [x for x in map(_share, self.found) if x is not None]
        if not shares:
            return ""
        good = sum(x >= EXPERT for x in shares)
        told = f"{EXPERT * 100:.0f} %"
        text = self.t(
            f"{good} of {len(shares)} cases reach {told} of the expert's speed or more; the median"
            f" is {_percent(statistics.median(shares))}.",
            f"{len(shares)} 个案例中有 {good} 个达到专家速度的 {told} 或以上；中位数为"
            f" {_percent(statistics.median(shares))}。",
        )
        note = self.t(" ¹ There was no time for all trials: what was found until then.",
                      " ¹ 时间不足以完成所有试验：截至当时的结果。")  # fmt: skip
        return text + (note if any(f.short_of_time for f in self.found) else "")

    def _accuracy(self) -> str:
        """How well gains were predicted."""
        made = gains(self.found)
        if not made and not self.recorded:
            return ""
        parts = [self.t("## Gains, predicted and measured", "## 提速：预测与实测")]
        single, several = [g for g in made if g.single], [g for g in made if not g.single]
        groups = [
            (self.t("one change, against the original", "单项改动，对比原始代码"),
             [abs(g.error) for g in single if not g.trial.against]),
            (self.t("one change, on top of others", "单项改动，叠加在其他改动之上"),
             [abs(g.error) for g in single if g.trial.against]),
            (self.t("one change, all", "单项改动，合计"), [abs(g.error) for g in single]),
            (self.t("several changes at once", "多项改动一起"), [abs(g.error) for g in several]),
            (self.t("recorded pairs ([advise.md](advise.md#how-sure-a-gain-is))",
                    "已记录的成对测量（[advise.zh-CN.md](advise.zh-CN.md)）"),
             [abs(r["error"]) for r in self.recorded]),
        ]  # fmt: skip
        heads = self.t("gains of|trials|median error|largest",
                       "对象|次数|误差中位数|最大").split("|")  # fmt: skip
        rows = [
            [name, str(len(errors)), _percent(statistics.median(errors)), _percent(max(errors))]
            for name, errors in groups if errors
        ]  # fmt: skip
        parts.append(_table(heads, rows, "lrrr"))
        parts.append(self._verdict_on_gains([abs(g.error) for g in single]))
        if made:
            parts.append(self._gain_table(made))
        return "\n\n".join(part for part in parts if part)

    def _verdict_on_gains(self, errors: Sequence[float]) -> str:
        if not errors:
            return ""
        met = statistics.median(errors) <= TARGET
        aim = f"{TARGET * 100:.0f} %"
        return self.t(
            f"The aim, a median of {aim} for single changes, is {'met' if met else 'missed'}.",
            f"目标：单项改动误差中位数不超过 {aim}；{'已达到' if met else '未达到'}。",
        )

    def _gain_table(self, made: Sequence[Gain]) -> str:
        heads = self.t(
            "case|change|on top of|predicted|measured|95 % interval|error",
            "案例|改动|叠加于|预测|实测|95% 区间|误差",
        ).split("|")
        rows = [
            [
                g.case.name, _names(g.trial.added), _names(g.trial.against) or "–",
                f"{three(g.predicted)}×", f"{three(g.measured)}×", _interval(g.trial),
                f"{g.error * 100:+.1f} %".replace("-", "−"),
            ]
            for g in made
        ]  # fmt: skip
        title = self.t(f"Every gain that was predicted and measured ({len(made)})",
                       f"所有既有预测又有实测的提速（{len(made)} 项）")  # fmt: skip
        table = _table(heads, rows, "lllrrrr")
        return f"<details><summary>{title}</summary>\n\n{table}\n\n</details>"

    # -- one case --------------------------------------------------------------------------------

    def _case(self, found: Found) -> str:
        case = found.case
        title = case.zh if self.zh else case.en
        parts = [f'<a id="{case.name}"></a>\n\n## {title}']
        if found.steps:
            parts.append(self._step_table(found))
        elif found.short_of_time:
            parts.append(self.t("The time was over before anything could be kept.",
                                "在得到任何可保留的改动之前时间已用完。"))  # fmt: skip
        else:
            parts.append(self.t("Nothing of what was tried makes it better; it was left as it is.",
                                "试过的改动都没有带来改善；保持原样。"))  # fmt: skip
        parts += [self._agreement(found), self._refused(found), self._untried(found)]
        return "\n\n".join(part for part in [*parts, *self._scripts(found)] if part)

    def _not_run(self) -> str:
        """Cases without a ladder, each with its scripts."""
        missing = [each for each in self.found if each.ladder is None]
        if not missing:
            return ""
        lines = [
            f"- {each.case.zh if self.zh else each.case.en}: {' '.join(self._scripts(each))}"
            for each in missing
        ]
        return "\n".join([self.t("## Not run yet", "## 尚未运行"), "", *lines])

    def _step_table(self, found: Found) -> str:
        heads = self.t(
            "change|predicted|measured|95 % interval|step|results",
            "改动|预测|实测|95% 区间|步时间|结果",
        ).split("|")
        assert found.ladder is not None
        before = seconds(found.ladder.baseline.step_s)
        expected = predicted_step_s(found.ladder)
        predicted = seconds(expected) if expected else ""
        start = [self.t("as it is", "原始代码"), predicted, "", "", before, ""]
        rows = [
            [
                self._rung(t, at), _times(t.expected), _times(t.speedup), _interval(t),
                seconds(t.measured.step_s) if t.measured is not None else "–",
                _VERDICTS[t.parity.verdict][self.zh] if t.parity is not None else "–",
            ]
            for at, t in enumerate(found.steps)
        ]  # fmt: skip
        return _table(heads, [start, *rows], "lrrrrl")

    def _rung(self, trial: Trial, at: int) -> str:
        """What one row adds; a row that begins at the original again is all of it at once."""
        if at and not trial.against:
            return self.t(f"all at once: {_names(trial.added)}", f"一次全上：{_names(trial.added)}")
        return f"+ {_names(trial.added)}"

    def _agreement(self, found: Found) -> str:
        parity = found.parity
        if parity is None or not parity.compared:
            return ""
        told = [
            f"{quantity(c.what).zh if self.zh else c.what} {share_of(c.largest)}"
            f" ({share_of(c.tolerance)})"
            for c in parity.compared
        ]
        return self.t(
            f"Largest difference from the original's results (allowed): {'; '.join(told)}.",
            f"与原始结果的最大差异（允许值）：{'；'.join(told)}。",
        )

    def _refused(self, found: Found) -> str:
        if not found.refused:
            return ""
        heads = self.t("tried, not kept|outcome|predicted|measured|why",
                       "试过但未保留|结果|预测|实测|原因").split("|")  # fmt: skip
        rows = [
            [
                _names(t.added), getattr(OUTCOMES[t.outcome], "zh" if self.zh else "en"),
                _times(t.expected), _times(t.speedup), _cell(t.why.zh if self.zh else t.why.en),
            ]
            for t in found.refused
        ]  # fmt: skip
        return _table(heads, rows, "llrrl")

    def _untried(self, found: Found) -> str:
        if not found.untried:
            return ""
        def told(trials: Iterable[Trial]) -> str:
            return ", ".join(f"{_names(t.added)} {_times(t.expected)}" for t in trials)

        parts = []
        gain = [t for t in found.untried if t.expected and t.expected >= 1 + LITTLE]
        harm = [t for t in found.untried if t.expected and t.expected <= 1 - LITTLE]
        little = len(found.untried) - len(gain) - len(harm)
        if gain:
            parts.append(self.t(f"to gain {told(gain)}", f"有收益 {told(gain)}"))
        if harm:
            parts.append(self.t(f"to harm {told(harm)}", f"有害 {told(harm)}"))
        if little:
            parts.append(self.t(f"little or nothing: {little} more",
                                f"几乎没有影响：另 {little} 项"))  # fmt: skip
        return self.t(f"Only predicted, alone, against the code as it is: {'; '.join(parts)}.",
                      f"只做了预测（单独，对比原始代码）：{'；'.join(parts)}。")  # fmt: skip

    def _scripts(self, found: Found) -> list[str]:
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
                told = _cell(without_paths(script.error))[-300:]
                parts.append(self.t(f"The {what} script could not be measured: {told}",
                                    f"{what} 脚本无法测量：{told}"))  # fmt: skip
        return [*parts, " · ".join(links)]

    def _plain(self, found: Found) -> str:
        """What of its patch is plain PyTorch."""
        assert found.ladder is not None
        written, applied, helped = parts_of(found.ladder.patch)
        if not written and not applied:
            return ""
        if not applied and not helped:
            return self.t(" (plain PyTorch)", "（纯 PyTorch）")
        told = _names((*helped, *applied))
        return self.t(f" (needs gpuscope for {told})", f"（{told} 需要 gpuscope）")

    def _again(self) -> str:
        return "\n".join([
            self.t("## Run it again", "## 重新运行"), "", "```",
            "python benchmarks/ladders/run.py --out ladders cuda:0=gpt2,vit_b16",
            f"python benchmarks/ladders/measure.py naive/gpt2 expert/gpt2 --out {MEASURED}",
            "python benchmarks/ladders/page.py --take ladders", "```",
        ])  # fmt: skip


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], sides: str) -> str:
    marks = ["---:" if side == "r" else "---" for side in sides]
    lines = [heads, marks, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _share(found: Found) -> float | None:
    """Of the expert's speed."""
    if found.expert_s is None or found.ours_s is None:
        return None
    return found.expert_s / found.ours_s


def _of_expert(found: Found) -> str:
    share = _share(found)
    if share is None:
        return "–"
    return f"**{_percent(share)}**" if share >= EXPERT else _percent(share)


def _memory(found: Found) -> str:
    """What the allocator held, before and after."""
    if found.ladder is None:
        return "–"
    old, best = found.ladder.baseline.reserved_memory_bytes, found.best
    new = best.measured.reserved_memory_bytes if best is not None and best.measured else None
    if old is None:
        return "–"
    return f"{size(old)} → {size(new)}" if new is not None else size(old)


def _percent(value: float) -> str:
    return f"{value * 100:.0f} %" if round(value, 4) >= 0.1 else f"{value * 100:.1f} %"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else three(value)


def _times(value: float | None) -> str:
    return "–" if value is None else f"{three(value)}×"


def _interval(trial: Trial) -> str:
    if trial.low is None or trial.high is None:
        return "–"
    return f"{three(trial.low)}–{three(trial.high)}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _cell(text: str) -> str:
    """A text that fits into one cell of a table."""
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split()) or "–"


def main() -> None:
    from pages import splice

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--take", nargs="+", type=Path, default=[], metavar="FOLDER")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    if given.take:
        print("taken:", ", ".join(take(given.take, RESULTS)) or "nothing")
    found = find(RESULTS)
    path = ROOT / "validation" / "results" / "gains.json"
    recorded = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    same = True
    for zh, ending in ((False, ".md"), (True, ".zh-CN.md")):
        page = Page(found, zh, recorded)
        target = ROOT / "docs" / f"ladders{ending}"
        text = page.text()
        same &= target.is_file() and target.read_text(encoding="utf-8") == text
        if not given.check:
            write_atomically(target, text)
        same &= splice(ROOT / f"README{ending}", "ladders", page.short(), given.check)
    if given.check and not same:
        raise SystemExit("docs/ladders.md or a README differs: python benchmarks/ladders/page.py")


if __name__ == "__main__":
    main()
