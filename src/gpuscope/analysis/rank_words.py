"""The ranks' story in a few sentences, in English and Chinese."""

from __future__ import annotations

from gpuscope.analysis.recorded_types import CollectiveCall, RankStory, Straggler
from gpuscope.analysis.slow_hosts import slowest_host
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


WHERE_SEEN: dict[str, tuple[str, str]] = {
    "steps": ("", ""), "one step": ("In the one recorded step", "在记录的唯一一步中"),
    "few collectives": ("In the few recorded collectives", "在记录的少数集合通信中"),
}  # fmt: skip
"""How a verdict on one rank begins, by `Straggler.seen`."""

RECORD_MORE = (
    "Record more steps to see whether it is always this rank.",
    "请记录更多训练步，看是否总是该进程。",
)
"""What to do about a verdict that rests on too little."""


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
    elif story.waiting_s > story.waiting_by_reason.get("began late", 0.0):
        english.append("No rank holds up the others step after step.")
        chinese.append("没有哪个进程每一步都拖慢其他进程。")
    if len(story.causes) > 1:
        english.append(f"Waiting by cause: {_causes(story, chinese=False)}.")
        chinese.append(f"等待的来源：{_causes(story, chinese=True)}。")
    if story.calls and story.waiting_s > 0:
        for sentences, more in zip((english, chinese), _worst(story.calls[0]), strict=True):
            sentences.append(more)
    for sentences, more in zip((english, chinese), _began_late(story), strict=True):
        sentences += [more] if more else []
    if not story.complete:
        english.append("Not every rank is recorded: some of the transfer may be waiting too.")
        chinese.append("并非所有进程都有记录：部分“传输”可能也是等待。")
    return " ".join(english), "".join(chinese)


def _began_late(story: RankStory) -> tuple[str, str]:
    """What of the waiting is the recorder's, and which host is the slowest behind it."""
    began = [(time_s, rank) for rank, reason, time_s in story.causes if reason == "began late"]
    time_s = sum(time_s for time_s, _ in began)
    if not began or time_s < 0.2 * story.waiting_s:
        return "", ""
    hosts = slowest_host(story)
    after, after_zh = hosts.after_a_late_start if hosts is not None else ("", "")
    rank, gone = max(began)[1], seconds(time_s)
    return (
        f"{gone} of the waiting is the recorder's, not the program's: the recording of rank {rank} "
        "began late, and it had not caught up. What it did before is not known: record several "
        f"steps after a warm-up to see whether it is late again. {after}".rstrip(),
        f"其中 {gone} 的等待来自记录过程，而非程序：rank {rank} 的记录开始得晚，此后一直没有赶上。"
        f"它之前在做什么无法得知：请在预热后记录多个训练步，看它是否再次迟到。{after_zh}",
    )


def _causes(story: RankStory, chinese: bool, most: int = 4) -> str:
    words = [
        f"rank {rank} {seconds(time_s)}（{SHORT[reason]}）" if chinese
        else f"rank {rank} {seconds(time_s)} ({reason})"
        for rank, reason, time_s in story.causes[:most]
    ]  # fmt: skip
    return ("，" if chinese else ", ").join(words)


def _straggler(straggler: Straggler) -> tuple[str, str]:
    why, why_zh = REASONS[straggler.reason]
    share, rank = percent(straggler.share), straggler.rank
    english, chinese = f"ank {rank} causes {share} of the waiting: {why}.", (
        f"rank {rank} 造成了 {share} 的等待：{why_zh}。"
    )
    where, where_zh = WHERE_SEEN[straggler.seen]
    if not where:
        return f"R{english}", chinese
    again, again_zh = RECORD_MORE
    return f"{where}, r{english} {again}", f"{where_zh}，{chinese}{again_zh}"


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
