"""Chinese for the English texts of the pictures and of the notebook's cards."""

from __future__ import annotations

from collections.abc import Mapping

PICTURES_CHINESE: Mapping[str, str] = {
    "Install gpuscope[figures] to see this chart here.": (
        "安装 gpuscope[figures] 后可在此查看该图。"
    ),
    "There is no chart in this explanation to write.": "该解释中没有可输出的图。",
    "link between devices": "设备间互连",
    "one direction": "单向",
    "power limit": "功耗上限",
    "price per hour": "每小时价格",
    "Dense peak rates": "稠密峰值算力",
    "{n} devices, {nodes} hosts with {each} each": "{n} 块设备，{nodes} 台主机，每台 {each} 块",
    "of {size}": "共 {size}",
    "of all together": "合计",
    "among {n} devices": "{n} 块设备之间",
    "fabric": "网络",
    "for each device": "每块设备",
    "No font with Chinese characters was found, so they are missing in the pictures. Install "
    "one (for example Noto Sans CJK), or write the figures with --lang en.": (
        "没有找到含中文字符的字体，图片中的中文将无法显示。"
        "请安装一种中文字体（例如 Noto Sans CJK），或用 --lang en 输出英文图片。"
    ),
}
