"""What a server under load says about itself: its memory, and whether everything was given back afterwards."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from statistics import median

import httpx

_LOOK_S = 2.0
_LOOKS, _PAUSE_S = 50, 0.1  # what ended last is counted until the next step is over
_SAMPLE = re.compile(r"^([a-zA-Z_:]+)(?:\{[^}]*\})? ([0-9.eE+-]+)$", re.MULTILINE)
_MEMORY, _RUNNING, _WAITING = (
    "process_resident_memory_bytes",
    "sgrt:num_requests_running",
    "sgrt:num_requests_waiting",
)


@dataclass(slots=True)
class ServerGauges:
    """Looks at a server's metrics while a load runs; a server without such metrics gives nothing."""

    memory_bytes: list[float] = field(default_factory=list)

    async def watch(self, client: httpx.AsyncClient) -> None:
        """Look every few seconds until cancelled."""
        while True:
            gauges = await _read(client)
            if _MEMORY in gauges:
                self.memory_bytes.append(gauges[_MEMORY])
            await asyncio.sleep(_LOOK_S)

    @property
    def memory_mib(self) -> dict[str, float]:
        """Medians of the second quarter and of the last, and the largest: flat if the first two are alike.

        The first quarter warms up: caches fill.
        """
        values = [value / 2**20 for value in self.memory_bytes]
        if len(values) < 4:
            return {}
        quarter = len(values) // 4
        return {
            "early": round(median(values[quarter : 2 * quarter]), 1),
            "late": round(median(values[-quarter:]), 1),
            "max": round(max(values), 1),
        }


async def left_over(client: httpx.AsyncClient) -> int | None:
    """Requests that the server still counts as running or waiting a while after; None where it does not say."""
    number = 0
    for _ in range(_LOOKS):
        gauges = await _read(client)
        if _RUNNING not in gauges:
            return None
        number = int(gauges[_RUNNING] + gauges.get(_WAITING, 0.0))
        if number == 0:
            break
        await asyncio.sleep(_PAUSE_S)
    return number


async def _read(client: httpx.AsyncClient) -> dict[str, float]:
    try:
        response = await client.get("/metrics")
    except httpx.HTTPError:
        return {}
    if response.status_code != httpx.codes.OK:
        return {}
    sums: dict[str, float] = {}
    for name, value in _SAMPLE.findall(response.text):
        sums[name] = sums.get(name, 0.0) + float(value)  # a server may have several models
    return sums
