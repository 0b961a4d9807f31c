"""`python -m moldau.simulation.cluster.shrink --seed 7 > story.txt` reduces the trouble of a broken seed to a minimum.

Prints a story: each line `trouble: KIND NUMBER` is an act, the other lines show its effects. `--again story.txt` runs
only the acts in such a story, from which you may delete lines. The exit code is 0 if a rule is broken, else 1.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from moldau.simulation.cluster.faults import Act
from moldau.simulation.cluster.run import DEFAULT_SECONDS, Outcome, run_seed

SHORTEST_S = 5.0
HEAD = "seed {} has trouble for {} s"
_HEAD = re.compile(r"^seed (\d+) has trouble for ([\d.]+) s", re.MULTILINE)
_ACT = re.compile(r"trouble: ([a-z ]+) (\d+)$", re.MULTILINE)


class Scenario(msgspec.Struct, frozen=True):
    """A seed with only these acts of its trouble; None: with all."""

    seed: int
    seconds: float = DEFAULT_SECONDS
    acts: tuple[Act, ...] | None = None

    @classmethod
    def parse(cls, text: str) -> Scenario:
        """The scenario in the text of a story. Raises ValueError if the text is not a story."""
        head = _HEAD.search(text)
        if head is None:
            raise ValueError("no line says: " + HEAD.format("N", "S"))
        acts = tuple((kind, int(number)) for kind, number in _ACT.findall(text))
        return cls(int(head[1]), float(head[2]), acts)

    def play(self, write_line: Callable[[str], None] | None = None) -> Outcome:
        return run_seed(self.seed, seconds=self.seconds, chosen=self.acts, write_line=write_line)

    def story(self) -> tuple[str, Outcome]:
        """Runs the scenario. Returns a text from which `parse` makes this scenario again, and the outcome."""
        lines = [HEAD.format(self.seed, self.seconds)]
        outcome = self.play(lines.append)
        return "\n".join(lines), outcome


def shrunk(scenario: Scenario, is_broken: Callable[[Scenario], bool]) -> Scenario:
    """The smallest scenario that is still broken: without any one of its acts it is not. `scenario` is broken, and
    names its acts. First removes whole kinds, then halves of the rest, and so on down to single acts."""
    while scenario.seconds / 2 >= SHORTEST_S and is_broken(shorter := replace(scenario, seconds=scenario.seconds / 2)):
        scenario = shorter
    acts = scenario.acts or ()

    def may_go(fewer: tuple[Act, ...]) -> bool:
        return is_broken(replace(scenario, acts=fewer))

    for kind in dict.fromkeys(kind for kind, _ in acts):
        others = tuple(act for act in acts if act[0] != kind)
        acts = others if may_go(others) else acts
    size = len(acts)
    while size > 0:
        before = acts
        for start in range(len(acts) - size, -1, -size):
            fewer = acts[:start] + acts[start + size :]
            acts = fewer if may_go(fewer) else acts
        size = min(size // 2, len(acts)) if size > 1 or acts == before else 1
    return replace(scenario, acts=acts)


def main(arguments: list[str] | None = None) -> int:
    """Prints the story, and the attempts on stderr."""
    parser = argparse.ArgumentParser(prog="python -m moldau.simulation.cluster.shrink", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the broken seed")
    parser.add_argument("--again", type=Path, metavar="FILE", help="a story to play again")
    options = parser.parse_args(arguments)
    if options.again is not None:
        return _print(Scenario.parse(options.again.read_text()))
    story, outcome = Scenario(options.seed).story()
    if not outcome.rule:
        print(f"seed {options.seed} breaks no rule")
        return 1

    def is_broken(scenario: Scenario) -> bool:
        rule = scenario.play().rule
        print(f"{len(scenario.acts or ())} acts, {scenario.seconds} s: {rule or 'nothing broken'}", file=sys.stderr)
        return rule == outcome.rule

    broken_s = float(outcome.story[-1].split()[0])  # trouble need not last longer
    scenario = Scenario.parse(story)
    return _print(shrunk(replace(scenario, seconds=min(scenario.seconds, broken_s)), is_broken))


def _print(scenario: Scenario) -> int:
    story, outcome = scenario.story()
    print(story)
    return 0 if outcome.rule else 1


if __name__ == "__main__":
    sys.exit(main())
