"""How much CO2 a kilowatt-hour of electricity brings about, by place.

Figures: carbon intensity of electricity generation over its life cycle, grams of CO2 equivalent
per kWh, yearly mean of all generation in a place. Source: Ember, "Yearly Electricity Data" (CC BY
4.0), as given by Our World in Data (github.com/owid/energy-data, column carbon_intensity_elec; the
countries by way of github.com/mlco2/codecarbon, file global_energy_mix.json, rounded here). A real
grid differs by hour and by contract: give your own factor where you know it.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnknownNameError

JOULES_PER_KWH = 3.6e6

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
    place: Text
    g_per_kwh: float
    year: int | None
    source: str

    def grams(self, energy_j: float) -> float:
        """Grams of CO2 equivalent of so much energy."""
        return energy_j / JOULES_PER_KWH * self.g_per_kwh


def _ember(code: str, place: Text, g_per_kwh: float, year: int = 2023) -> GridFactor:
    return GridFactor(code, place, g_per_kwh, year, SOURCE)


WORLD = _ember("world", Text("world average"), 471.1, 2024)

GRIDS: dict[str, GridFactor] = {
    grid.code: grid
    for grid in (
        WORLD,
        _ember("au", Text("Australia"), 548.7),
        _ember("br", Text("Brazil"), 98.3),
        _ember("ca", Text("Canada"), 170.0),
        _ember("ch", Text("Switzerland"), 34.8),
        _ember("cn", Text("China"), 582.3),
        _ember("de", Text("Germany"), 381.0),
        _ember("dk", Text("Denmark"), 151.7),
        _ember("es", Text("Spain"), 174.1),
        _ember("fi", Text("Finland"), 79.2),
        _ember("fr", Text("France"), 56.0),
        _ember("gb", Text("United Kingdom"), 237.6),
        _ember("ie", Text("Ireland"), 290.8),
        _ember("in", Text("India"), 713.4),
        _ember("it", Text("Italy"), 330.7),
        _ember("jp", Text("Japan"), 485.4),
        _ember("kr", Text("South Korea"), 430.6),
        _ember("nl", Text("Netherlands"), 267.6),
        _ember("no", Text("Norway"), 30.1),
        _ember("pl", Text("Poland"), 661.9),
        _ember("se", Text("Sweden"), 40.7),
        _ember("sg", Text("Singapore"), 470.8),
        _ember("us", Text("United States"), 369.5),
        _ember("za", Text("South Africa"), 707.7),
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
            Text("electricity grid"),
            text,
            GRIDS,
            Text("Type a country's two letters, or grams per kWh: --grid 56"),
        ) from None
    if not 0 <= given < 10_000:
        raise InvalidValueError(
            Text("A grid cannot bring about {text} g of CO2 per kWh.", text=text),
            Text("Coal alone is about 1000 g/kWh."),
            Text("Type a number of grams: --grid 475"),
        )
    return GridFactor("given", Text("as given"), given, None, "")
