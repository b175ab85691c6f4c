"""What an hour of a device costs: the catalogue's price, or one from a file of the user's.

A file has a table for each device:

    [h100]
    usd_per_hour = 2.49        # of one device
    date = 2026-11-01
    region = "eu-north-1"
    source = "our contract"
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpuscope.document.quantities import Usd
from gpuscope.document.text import Text
from gpuscope.errors import InputFileError, InvalidValueError, UnknownNameError
from gpuscope.hardware import Cluster, Device, parse_target
from gpuscope.outside.toml_file import read_toml, shown

__all__ = ["OLD_DAYS", "Price", "prices_of", "told", "with_prices"]

OLD_DAYS = 90
"""From then on a price's age is said."""

_FIELD = "price_usd_per_hour"
_KEYS = ("usd_per_hour", "date", "region", "source")


@dataclass(frozen=True, slots=True)
class Price:
    """What an hour of one device costs.

    Attributes:
        usd_per_hour: of one device.
        date: the day it was read.
        region, source: where it holds, and where it was read.
    """

    usd_per_hour: float
    date: datetime.date
    region: str
    source: str


def prices_of(path: Path) -> Mapping[str, Price]:
    """Prices of a file by the device's id.

    Raises:
        InputFileError: no such file, it is no TOML, or it has no price.
        UnknownNameError: no such device or key.
        InvalidValueError: no positive price, no date.
    """
    content = read_toml(path, _example())
    if not content:
        raise InputFileError(Text("{path} has no price.", path=path), "", _example())
    return {parse_target(name).device.id: _price(name, row) for name, row in content.items()}


def _price(name: str, row: object) -> Price:
    if not isinstance(row, Mapping):
        raise InvalidValueError(
            Text("{name} = {value} is no price.", name=name, value=shown(row)), "", _example()
        )
    for key in row:
        if key not in _KEYS:
            keys = Text("A price has: {names}; it is in US dollars.", names=", ".join(_KEYS))
            raise UnknownNameError(Text("key"), key, _KEYS, keys)
    usd, date = row.get("usd_per_hour"), _date(row)
    if isinstance(usd, bool) or not isinstance(usd, int | float) or not 0 < usd < float("inf"):
        raise InvalidValueError(
            Text("{name}: usd_per_hour = {value} is no price.", name=name, value=shown(usd)),
            "",
            _example(),
        )
    if date is None:
        raise InvalidValueError(
            Text("The price of {device} has no date.", device=name),
            Text("Prices change, so that each says when it was read."),
            Text("Write for example: {name} = {example}", name="date", example="2026-11-01"),
        )
    return Price(float(usd), date, shown(row.get("region", "")), shown(row.get("source", "")))


def _date(row: Mapping[str, Any]) -> datetime.date | None:
    date = row.get("date")
    if isinstance(date, datetime.datetime):
        return date.date()
    return date if isinstance(date, datetime.date) else _day(date)


def _day(text: object) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(str(text))
    except ValueError:
        return None


def _example() -> Text:
    return Text("Write for example: [h100] and, below it, usd_per_hour = 2.49, date = 2026-11-01")


def with_prices(clusters: Sequence[Cluster], prices: Mapping[str, Price]) -> tuple[Cluster, ...]:
    """The clusters with these prices; devices that are not among them keep the catalogue's."""
    return tuple(
        replace(cluster, device=_priced(cluster.device, prices[cluster.device.id]))
        if cluster.device.id in prices
        else cluster
        for cluster in clusters
    )


def _priced(device: Device, price: Price) -> Device:
    others = tuple(pair for pair in device.sources if pair[0] != _FIELD)
    origins = tuple(pair for pair in device.origins if pair[0] != _FIELD)
    return replace(
        device,
        price_usd_per_hour=price.usd_per_hour,
        price_note=price.region or None,
        price_date=price.date.isoformat(),
        sources=(*others, (_FIELD, (price.source,))) if price.source else others,
        origins=origins,
    )


def told(devices: Iterable[Device], today: datetime.date) -> tuple[Text, ...]:
    """What each device's price is, since when, from where, and which is old.

    Args:
        devices: in their order; equal ones are told once.
        today: the day from which ages count.
    """
    lines: list[Text] = []
    for device in dict.fromkeys(devices):
        if device.price_usd_per_hour is None:
            continue
        date = device.price_date or ""
        known = (device.price_note, date, device.source(_FIELD))
        lines.append(
            Text(
                "Price of {device}: {usd} an hour ({where}).",
                device=device.name,
                usd=Usd(device.price_usd_per_hour),
                where="; ".join(part for part in known if part),
            )
        )
        day = _day(date)
        if day is None:
            lines.append(
                Text(
                    "That price of {device} is of no known day; give your own: --prices FILE",
                    device=device.name,
                )
            )
        elif (today - day).days > OLD_DAYS:
            lines.append(
                Text(
                    "That price of {device} is {days} days old; give a newer one: --prices FILE",
                    device=device.name,
                    days=(today - day).days,
                )
            )
    return tuple(lines)
