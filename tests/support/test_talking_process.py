from __future__ import annotations

import sys
import time

from tests.support.talking_process import TalkingProcess


def test_a_program_that_has_ended_says_so_to_each_who_asks() -> None:
    process = TalkingProcess([sys.executable, "-c", "print('one')"])
    end_s = time.monotonic() + 60
    assert not process.wait_for(lambda line: line == "two", end_s)
    assert not process.wait_for(lambda line: line == "three", end_s)
    assert process.kill() == 0
