"""Chinese for the English texts of the pictures and of a run's figures."""

from __future__ import annotations

from collections.abc import Mapping

PICTURES_CHINESE: Mapping[str, str] = {
    "No font with Chinese characters was found, so they are missing in the pictures. Install "
    "one (for example Noto Sans CJK), or write the figures with --lang en.": (
        "没有找到含中文字符的字体，图片中的中文将无法显示。"
        "请安装一种中文字体（例如 Noto Sans CJK），或用 --lang en 输出英文图片。"
    ),
}
