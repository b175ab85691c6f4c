"""The ranks' story in a few sentences, in English and Chinese."""

from __future__ import annotations

from gpuscope.analysis.recorded_types import CollectiveCall, RankStory, Straggler
from gpuscope.analysis.wording import percent, seconds

REASONS: dict[str, tuple[str, str]] = {
    "began late": (
        "its recording or its step began later than the others'",
        "它的记录或训练步比其他进程开始得晚",
    ),
    "more work": ("its device was busy longer", "它的设备忙碌时间更长"),
    "slower kernels": ("its device runs equal kernels more slowly", "它的设备执行相同内核更慢"),
    "host dispatching": ("its host launched work too late", "它的主机派发工作太晚"),
    "host synchronising": ("its host stood in a synchronisation", "它的主机停在同步上"),
    "waiting for data": ("its host was loading input", "它的主机在加载输入数据"),
    "other communication": (
        "it was held up in other communication or copies", "它被其他通信或拷贝拖住",
    ),
    "unknown": ("what it did instead is not recorded", "它当时在做什么没有记录"),
}  # fmt: skip
"""Why a rank is late, as the end of a sentence."""


SHORT: dict[str, str] = {
    "began late": "开始得晚", "more work": "工作更多", "slower kernels": "内核更慢",
    "host dispatching": "主机派发", "host synchronising": "主机同步",
    "waiting for data": "等待数据", "other communication": "其他通信", "unknown": "原因未知",
}  # fmt: skip
"""The reasons in Chinese, in a word or two."""


def rank_sentences(story: RankStory) -> tuple[str, str]:
    """Return the story's sentences, English and Chinese."""
    count = len(story.ranks)
    both = story.transfer_s + story.waiting_s
    english = [
        f"{count} ranks meet in {story.matched} collectives: of {seconds(both)} in their kernels, "
        f"summed over the ranks, {percent(1 - story.waiting_share)} is transfer and "
        f"{percent(story.waiting_share)} is waiting for the last rank."
    ]
    chinese = [
        f"{count} 个进程在 {story.matched} 次集合通信中相遇：各进程的通信内核共 {seconds(both)}，"
        f"其中 {percent(1 - story.waiting_share)} 是传输，{percent(story.waiting_share)} 是等待最后"
        "到达的进程。"
    ]
    if story.straggler is not None:
        for sentences, more in zip((english, chinese), _straggler(story.straggler), strict=True):
            sentences.append(more)
    elif story.waiting_s > 0:
        english.append("No rank holds up the others step after step.")
        chinese.append("没有哪个进程每一步都拖慢其他进程。")
    if len(story.causes) > 1:
        english.append(f"Waiting by cause: {_causes(story, chinese=False)}.")
        chinese.append(f"等待的来源：{_causes(story, chinese=True)}。")
    if story.calls and story.waiting_s > 0:
        for sentences, more in zip((english, chinese), _worst(story.calls[0]), strict=True):
            sentences.append(more)
    if story.waiting_by_reason.get("began late", 0.0) >= 0.2 * story.waiting_s > 0:
        english.append(
            "What a rank did before its recording began is not known: record several steps to see "
            "whether it is late again."
        )
        chinese.append("记录开始之前进程在做什么无法得知：请记录多个训练步，看它是否再次迟到。")
    if not story.complete:
        english.append("Not every rank is recorded: some of the transfer may be waiting too.")
        chinese.append("并非所有进程都有记录：部分“传输”可能也是等待。")
    return " ".join(english), "".join(chinese)


def _causes(story: RankStory, chinese: bool, most: int = 4) -> str:
    words = [
        f"rank {rank} {seconds(time_s)}（{SHORT[reason]}）" if chinese
        else f"rank {rank} {seconds(time_s)} ({reason})"
        for rank, reason, time_s in story.causes[:most]
    ]  # fmt: skip
    return ("，" if chinese else ", ").join(words)


def _straggler(straggler: Straggler) -> tuple[str, str]:
    why, why_zh = REASONS[straggler.reason]
    return (
        f"Rank {straggler.rank} causes {percent(straggler.share)} of the waiting: {why}.",
        f"rank {straggler.rank} 造成了 {percent(straggler.share)} 的等待：{why_zh}。",
    )


def _worst(call: CollectiveCall) -> tuple[str, str]:
    why, why_zh = REASONS[call.reason]
    doing = doing_zh = ""
    if call.reason == "began late":
        doing, doing_zh = f", by {seconds(call.instead_s)}", f"，晚 {seconds(call.instead_s)}"
    elif call.instead_s > 0 and call.reason != "unknown":
        what = call.instead or "no operator or call on its host"
        what_zh = call.instead.replace("profiler: ", "分析器：") or "其主机上没有算子或调用"
        doing, doing_zh = (
            f" ({what}, {seconds(call.instead_s)})", f"（{what_zh}，{seconds(call.instead_s)}）",
        )  # fmt: skip
    return (
        f"The worst is collective {call.number} ({call.name or 'unnamed'}): "
        f"{seconds(call.waiting_s)} of waiting for a transfer of {seconds(call.transfer_s)}; rank "
        f"{call.last} came {seconds(call.late_s)} after the median of the others: "
        f"{why}{doing}.",
        f"最严重的是第 {call.number} 次（{call.name or '未命名'}）：传输只需 "
        f"{seconds(call.transfer_s)}，各进程共等待 {seconds(call.waiting_s)}；rank {call.last} 比"
        f"其他进程的中位数晚到 {seconds(call.late_s)}：{why_zh}{doing_zh}。",
    )
