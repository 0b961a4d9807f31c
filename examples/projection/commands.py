"""Commands of visitors of a theatre as JSON lines: `python commands.py monday`, `python commands.py tuesday`. Some are
rejected: the show is full, or the seat is not theirs."""

import json
import sys
from random import Random

draw = Random(sys.argv[1])
WEIGHTS = {"monday": [3, 2], "tuesday": [2, 3]}  # on Tuesday more is cancelled
shows = ["Hamlet", "Faust", "Medea", "Lear", "Tosca", "Carmen"]
for _ in range(1_500):
    show = draw.choices(shows, weights=[9, 3, 5, 2, 7, 4])[0]
    kind = draw.choices(["reserve", "cancel"], weights=WEIGHTS[sys.argv[1]])[0]
    print(json.dumps({"command": kind, "show": show, "customer": f"customer-{draw.randint(1, 60)}"}))
