"""A trace in the format that Chrome's tracing page and Perfetto show: one lane per state, one bar per call."""

from __future__ import annotations

import json
from pathlib import Path

from sgrt_frontend.trace import Trace


def chrome_events(trace: Trace) -> list[dict[str, object]]:
    """Complete events ("ph": "X"), times in microseconds, lanes in the order in which states first called."""
    lanes: dict[str, int] = {}
    events: list[dict[str, object]] = []
    for call in trace.ordered():
        path = call.label.rsplit("#", 1)[0]
        if path not in lanes:
            lanes[path] = len(lanes)
            events.append(
                {"ph": "M", "name": "thread_name", "pid": 0, "tid": lanes[path], "args": {"name": path}}
            )
        events.append(
            {
                "ph": "X",
                "name": call.variable or call.kind.value,
                "cat": call.kind.value,
                "pid": 0,
                "tid": lanes[path],
                "ts": round(call.started_s * 1e6, 1),
                "dur": round(call.seconds * 1e6, 1),
                "args": {
                    "source": call.source,
                    "prompt_tokens": len(call.prompt),
                    "cached_tokens": call.cached_tokens,
                    "output": call.samples[0].text if call.samples else "",
                    "stop": call.samples[0].stop_reason.value if call.samples else "",
                    "error": call.error,
                },
            }
        )
    return events


def save_chrome_trace(trace: Trace, path: str | Path) -> None:
    """Write the events to a file that the tracing page opens."""
    document = {"traceEvents": chrome_events(trace), "displayTimeUnit": "ms"}
    Path(path).write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
