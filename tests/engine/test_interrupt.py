"""Programs that are interrupted, or end without closing their engine, end cleanly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

_START = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job inherits "ignore"
from scripted_engine import scripted_engine
from sgrt_frontend.call import Call, SamplingParams
engine = scripted_engine(lambda prompt, output: {65: 9.0}, settings={"checks_integrity": False})
asked = Call(prompt=(1, 2), sampling=SamplingParams(max_tokens=4000, ignore_eos=True))
"""
_ENDLESS = """
print("ready", flush=True)
with engine:
    while True:
        engine.complete(asked)
"""
_FORGETFUL = """
stream = engine.submit(asked)
next(iter(stream))
print("ready", flush=True)
"""


def _run(program: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", _START + program],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_ctrl_c_stops_a_program_in_the_middle_of_a_call() -> None:
    with _run(_ENDLESS) as program:
        assert program.stdout is not None and program.stdout.readline() == "ready\n"
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=240)
    assert program.returncode != 0
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert "Exception in thread" not in errors


def test_a_program_that_forgets_to_close_its_engine_still_ends() -> None:
    with _run(_FORGETFUL) as program:
        output, errors = program.communicate(timeout=240)
    assert (program.returncode, output, errors) == (0, "ready\n", "")
