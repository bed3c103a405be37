"""The GPU benchmark runs from end to end on a machine without a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "gpu.py"


def test_a_dry_run_passes_every_stage_and_states_no_time(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--dry", "--out", str(tmp_path), "--seed", "1"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{result.stdout[-4000:]}\n{result.stderr[-2000:]}"
    written = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert written["is_dry"] is True
    stages = {name: stage for name, stage in written.items() if isinstance(stage, dict)}
    assert len(stages) == 13
    assert stages["compile"]["failures"] == []
    assert sum(stage["limit_s"] for stage in stages.values()) <= 480  # what they need at most fits the budget
    assert not any("error" in stage or "skipped" in stage for stage in stages.values())
    table = result.stdout[result.stdout.index("case ") :]
    assert " us" not in table and "TB/s" not in table and "tokens/s" not in table
