"""The page of the ladders, from what was measured: `python benchmarks/ladders/page.py`.

Reads `benchmarks/results/ladders/CASE/ladder.json` (of `gpuscope optimize`) and `measured.jsonl`
there (the scripts measured as they are), and writes `docs/ladders.md`, its Chinese twin, and the
sum in both READMEs; and, by `singles_page.py`, `docs/single-changes.md` and its twin. `--take
FOLDER ...` first copies the ladders of a run (FOLDER/CASE/...) and their patches, without that
machine's paths. `--check` writes nothing and fails where a page differs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "src"), str(HERE), str(ROOT / "validation")]

from ladder_results import MEASURED, Found, find, take  # noqa: E402
from page_case import CaseSection  # noqa: E402
from page_gains import gains_section  # noqa: E402
from page_words import LINKS, VERDICTS, InLanguage, count, percent, table  # noqa: E402
from singles_page import SinglesPage, evidence  # noqa: E402
from singles_page import write as write_singles  # noqa: E402

from gpuscope.advice.results import Parity  # noqa: E402
from gpuscope.atomic import write_atomically  # noqa: E402
from gpuscope.document import format as written  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "ladders"
EXPERT = 0.95
"""Share of an expert's speed that was aimed at."""


class Page(InLanguage):
    """One language of the page.

    Args:
        found: all cases.
        zh: in Chinese.
        recorded: rows of `validation/results/gains.json`.
        singles: what to say of single changes measured beside the ladders; "" for nothing.
    """

    def __init__(
        self, found: Sequence[Found], zh: bool, recorded: Sequence[dict] = (), singles: str = ""
    ) -> None:
        super().__init__(zh)
        self.found, self.recorded, self.singles = found, recorded, singles
        self.cases = CaseSection(zh)

    def text(self) -> str:
        """The whole page."""
        t = self.t
        twin = t("[中文](ladders.zh-CN.md)", "[English](ladders.md)")
        head = t(
            "# Ladders: naive scripts, optimized, beside an expert's",
            "# 阶梯：朴素脚本、自动优化与专家手工优化的对比",
        )
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
            head,
            twin,
            intro,
            self._where(),
            self.table(),
            self._sum(),
            self._hosts(),
            self._ddp(),
            gains_section(self.found, self.zh, self.recorded, self.singles),
        ]
        parts += [self.cases.text(each) for each in self.found if each.ladder is not None]
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
        return table(heads, (self._row(each) for each in self.found), "lrrrrrrll")

    def _hosts(self) -> str:
        """What to know of the machines before their figures are read."""
        return self.t(
            "The machines differ in their hosts. Those of ViT, Llama, LSTM, DLRM and T5 dispatch an"
            " operator in 9.3 µs and copy pageable memory at 9.6 GB/s (`gpuscope bench --quick`);"
            " the others were not benched. Predictions are for the calibrated host, about 1.4 and 2"
            " times as fast, and were made before the run. That of Llama (2.96×) did not know yet"
            " that cuDNN plans its attention anew for each new length of the cache (34 ms a token);"
            " with it 9.88× is predicted.\n\n"
            "Of an expert's script that was measured several times, the quickest counts: under DDP"
            " that is 26.0 ms of another machine (29.5 ms, 28.3 to 35.4, on the machine of its"
            " ladder). Those of the LSTM and of the loader's case ran on the same machine as what"
            " they are held against, the others on one before; the loader's depends on the host's"
            " processors most, and was timed for 6 s, since a loader has batches ready when timing"
            " begins. How fast a loader gives batches is not predicted: what is predicted of its"
            " case is of the rest of the step.",
            "这些机器的主机各不相同。ViT、Llama、LSTM、DLRM、T5 的主机分派一个算子需 9.3 µs，"
            "可分页内存拷贝为 9.6 GB/s（`gpuscope bench --quick`）；其余主机没有测过。"
            "预测针对的是标定主机，快约 1.4 倍和 2 倍，均为运行之前所做。"
            "Llama 的预测（2.96×）当时还不知道 cuDNN 会为缓存的每个新长度重新规划注意力"
            "（每个词元 34 ms）；计入后预测为 9.88×。\n\n"
            "专家的脚本若测过多次，取最快的一次：DDP 的 26.0 ms 来自另一台机器（在其阶梯的机器上为"
            " 29.5 ms，28.3 至 35.4）。LSTM 和数据加载案例的与其对照在同一台机器上运行，"
            "其余在此前的机器上；数据加载案例最依赖主机的处理器，"
            "并且计时 6 秒，因为计时开始时加载器已备好一些批次。加载器给出批次的快慢不在预测之内："
            "该案例的预测只针对这一步的其余部分。",
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
            verdict = VERDICTS[row["parity"]["verdict"]][self.zh] if row["parity"] else "–"
            said.append(
                self.t(
                    f"{names}: {written.digits(row['speedup'])}× ({written.time(row['measured']['step_s'])};"
                    f" results {verdict})",
                    f"{names}：{written.digits(row['speedup'])}×（{written.time(row['measured']['step_s'])}；"
                    f"结果{verdict}）",
                )
            )
        return self.t(
            f"GPT-2 small under DDP on two GPUs takes {written.time(before)} a step as first written."
            f" Sets chosen by hand, tried in pairs ({LINKS}/ladders/ddp.py): {'; '.join(said)}."
            " There was no machine of eight.",
            f"GPT-2 small 在两块 GPU 上用 DDP，最初写法每步 {written.time(before)}。手工选择的组合，"
            f"成对试验（{LINKS}/ladders/ddp.py）：{'；'.join(said)}。没有八卡机器。",
        )

    def short(self) -> str:
        """For the README: the sum of it, and where the rest is."""
        if not any(each.ladder is not None for each in self.found):
            return self.t("The ladders were not run yet.", "这些阶梯尚未运行。")
        every = self.t(
            "Each with its steps, failures and patch: [docs/ladders.md](docs/ladders.md).",
            "每个案例的步骤、失败和补丁：[docs/ladders.zh-CN.md](docs/ladders.zh-CN.md)。",
        )
        told = self.singles.replace("](", "](docs/")
        return "\n\n".join(part for part in (f"{self._reached()} {every}".strip(), told) if part)

    def _row(self, found: Found) -> list[str]:
        name = found.case.zh if self.zh else found.case.en
        if found.ladder is not None:
            name = f"[{name}](#{found.case.name})"
        end = found.best
        gain = found.speedup
        kept = (
            ""
            if gain is None
            else f"{written.digits(gain[1])}× ({written.digits(gain[0])}–{written.digits(gain[2])})"
        )
        if end is None and found.ours_s is not None:
            kept = (
                self.t("nothing found in time", "时间内未找到")
                if found.short_of_time
                else (self.t("nothing to change", "无需改动"))
            )
        predicted = f"{written.digits(found.predicted)}×" if found.predicted else "–"
        return [
            name,
            self._rate(found, found.naive_s),
            self._ours(found),
            self._rate(found, found.expert_s),
            _of_expert(found),
            kept or "–",
            predicted,
            self._verdict(found.parity),
            _memory(found),
        ]

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
        return f"{count(found.case.per_step / step_s)} {unit}/s"

    def _verdict(self, parity: Parity | None) -> str:
        if parity is None:
            return "–"
        return f"{VERDICTS[parity.verdict][self.zh]} ({parity.numerics})"

    def _where(self) -> str:
        devices = dict.fromkeys(f.ladder.device for f in self.found if f.ladder is not None)
        if not devices:
            return self.t(
                "No ladder was run yet; scripts were measured as they are.",
                "尚未运行任何阶梯；脚本按原样测量。",
            )
        told = ", ".join(devices)
        return self.t(
            f"Measured on {told}. A gain is the median of interleaved pairs, original against best,"
            " with its 95 % interval; rates are of single measurements. Rungs multiply to the whole"
            " gain, and the step after each is the original's, divided by the gains until there."
            " Memory is what the allocator held (reserved).",
            f"在 {told} 上测量。提速是原始与最佳交错成对测量的中位数，附 95% 区间；速度为单次测量。"
            "各级提速连乘即为总提速，每级之后的步时间为原始步时间除以到此为止的提速。"
            "显存为分配器所占（reserved）。",
        )

    def _sum(self) -> str:
        note = self.t(
            " ¹ There was no time for all trials: what was found until then.",
            " ¹ 时间不足以完成所有试验：截至当时的结果。",
        )
        reached = self._reached()
        return reached + (note if reached and any(f.short_of_time for f in self.found) else "")

    def _reached(self) -> str:
        """How many cases come near the expert's speed."""
        shares = [x for x in map(_share, self.found) if x is not None]
        if not shares:
            return ""
        good = sum(x >= EXPERT for x in shares)
        told = f"{EXPERT * 100:.0f} %"
        return self.t(
            f"{good} of {len(shares)} cases reach {told} of the expert's speed or more; the median"
            f" is {percent(statistics.median(shares))}.",
            f"{len(shares)} 个案例中有 {good} 个达到专家速度的 {told} 或以上；中位数为"
            f" {percent(statistics.median(shares))}。",
        )

    def _not_run(self) -> str:
        """Cases without a ladder, each with its scripts."""
        missing = [each for each in self.found if each.ladder is None]
        if not missing:
            return ""
        lines = [
            f"- {each.case.zh if self.zh else each.case.en}: {' '.join(self.cases.scripts(each))}"
            for each in missing
        ]
        return "\n".join([self.t("## Not run yet", "## 尚未运行"), "", *lines])

    def _again(self) -> str:
        return "\n".join(
            [
                self.t("## Run it again", "## 重新运行"),
                "",
                "```",
                "python benchmarks/ladders/run.py --out ladders cuda:0=gpt2,vit_b16",
                f"python benchmarks/ladders/measure.py naive/gpt2 expert/gpt2 --out {MEASURED}",
                "python benchmarks/ladders/page.py --take ladders",
                "```",
            ]
        )


def _share(found: Found) -> float | None:
    """Of the expert's speed."""
    if found.expert_s is None or found.ours_s is None:
        return None
    return found.expert_s / found.ours_s


def _of_expert(found: Found) -> str:
    share = _share(found)
    if share is None:
        return "–"
    return f"**{percent(share)}**" if share >= EXPERT else percent(share)


def _memory(found: Found) -> str:
    """What the allocator held, before and after."""
    if found.ladder is None:
        return "–"
    old, best = found.ladder.baseline.reserved_memory_bytes, found.best
    new = best.measured.reserved_memory_bytes if best is not None and best.measured else None
    if old is None:
        return "–"
    return f"{written.size(old)} → {written.size(new)}" if new is not None else written.size(old)


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
    same = write_singles(given.check)
    for zh, ending in ((False, ".md"), (True, ".zh-CN.md")):
        page = Page(found, zh, recorded, SinglesPage(evidence(), zh).short())
        target = ROOT / "docs" / f"ladders{ending}"
        text = page.text()
        same &= target.is_file() and target.read_text(encoding="utf-8") == text
        if not given.check:
            write_atomically(target, text)
        same &= splice(ROOT / f"README{ending}", "ladders", page.short(), given.check)
    if given.check and not same:
        raise SystemExit("A page of docs/ or a README differs: python benchmarks/ladders/page.py")


if __name__ == "__main__":
    main()
