"""A signal asks a pipeline to stop, during any work of its main thread."""

from __future__ import annotations

import subprocess
import sys

EACH_LINE = """
import signal, sys, threading
from moldau.products.pipelines.running.stopping import StopRequest, signals

def trace(frame, event, argument):
    if frame.f_code.co_filename == threading.__file__:
        signal.raise_signal(signal.SIGTERM)
    return trace

stop = StopRequest()
with signals(stop):
    sys.settrace(trace)
    is_asked = stop.wait(0.001)
    sys.settrace(None)
print(is_asked)
"""


def test_a_signal_between_any_two_steps_of_a_wait_ends_the_wait():
    ended = subprocess.run([sys.executable, "-c", EACH_LINE], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.stderr) == ("True\n", "")
