"""How much CO2 a kilowatt-hour of electricity brings about, by place.

Figures: carbon intensity of electricity generation over its life cycle, grams of CO2 equivalent
per kWh, yearly mean of all generation in a place. Source: Ember, "Yearly Electricity Data" (CC BY
4.0), as given by Our World in Data (github.com/owid/energy-data, column carbon_intensity_elec; the
countries by way of github.com/mlco2/codecarbon, file global_energy_mix.json, rounded here). A real
grid differs by hour and by contract: give your own factor where you know it.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.explain.types import Words

SOURCE = "Ember, Yearly Electricity Data"


@dataclass(frozen=True, slots=True)
class GridFactor:
    """One grid.

    Attributes:
        code: "world", or the country's two letters (ISO 3166-1), in small letters.
        place: its name.
        g_per_kwh: grams of CO2 equivalent per kilowatt-hour.
        year: of the figure; None where the user gave it.
        source: who says so.
    """

    code: str
    place: Words
    g_per_kwh: float
    year: int | None
    source: str


def _ember(code: str, en: str, zh: str, g_per_kwh: float, year: int = 2023) -> GridFactor:
    return GridFactor(code, Words(en, zh), g_per_kwh, year, SOURCE)


WORLD = _ember("world", "world average", "世界平均", 471.1, 2024)

GRIDS: dict[str, GridFactor] = {
    grid.code: grid
    for grid in (
        WORLD,
        _ember("au", "Australia", "澳大利亚", 548.7),
        _ember("br", "Brazil", "巴西", 98.3),
        _ember("ca", "Canada", "加拿大", 170.0),
        _ember("ch", "Switzerland", "瑞士", 34.8),
        _ember("cn", "China", "中国", 582.3),
        _ember("de", "Germany", "德国", 381.0),
        _ember("dk", "Denmark", "丹麦", 151.7),
        _ember("es", "Spain", "西班牙", 174.1),
        _ember("fi", "Finland", "芬兰", 79.2),
        _ember("fr", "France", "法国", 56.0),
        _ember("gb", "United Kingdom", "英国", 237.6),
        _ember("ie", "Ireland", "爱尔兰", 290.8),
        _ember("in", "India", "印度", 713.4),
        _ember("it", "Italy", "意大利", 330.7),
        _ember("jp", "Japan", "日本", 485.4),
        _ember("kr", "South Korea", "韩国", 430.6),
        _ember("nl", "Netherlands", "荷兰", 267.6),
        _ember("no", "Norway", "挪威", 30.1),
        _ember("pl", "Poland", "波兰", 661.9),
        _ember("se", "Sweden", "瑞典", 40.7),
        _ember("sg", "Singapore", "新加坡", 470.8),
        _ember("us", "United States", "美国", 369.5),
        _ember("za", "South Africa", "南非", 707.7),
    )
}
"""Grids that are known, by code."""


def grid_factor(text: str | None) -> GridFactor:
    """Return the grid that a user names, or the factor that they give.

    Args:
        text: a code ("world", "fr"), or grams per kWh ("56"); None for the world's average.

    Raises:
        UnknownNameError: neither.
        InvalidValueError: a factor below zero, or no finite number.
    """
    if text is None:
        return WORLD
    wanted = text.strip().lower()
    if wanted in GRIDS:
        return GRIDS[wanted]
    try:
        given = float(wanted)
    except ValueError:
        raise UnknownNameError(
            "grid", text, GRIDS, "Type a country's two letters, or grams per kWh: --grid 56"
        ) from None
    if not 0 <= given < 10_000:
        raise InvalidValueError(
            f"A grid cannot bring about {text} g of CO2 per kWh.",
            "Coal alone is about 1000 g/kWh.", "Type a number of grams: --grid 475",
        )  # fmt: skip
    return GridFactor("given", Words("as given", "用户指定"), given, None, "")
