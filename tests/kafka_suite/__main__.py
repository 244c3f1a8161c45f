"""Plays tapes and prints what differs, then the counts of README.md.

.venv/bin/python -m tests.kafka_suite                   # all
.venv/bin/python -m tests.kafka_suite KTableFilter      # those whose names have this in them
"""

import sys
from collections import Counter

from tests.kafka_suite.left_out import reason_of
from tests.kafka_suite.playing import difference
from tests.kafka_suite.tapes import tapes
from tests.kafka_suite.topologies import topology_of


def main(part: str) -> int:
    counts: Counter[str] = Counter()
    for tape in tapes():
        if part not in tape.name:
            continue
        write = topology_of(tape)
        if not tape.is_piped:
            outcome = "pipes nothing" if "topology" in tape.line else "has no test driver"
        elif reason_of(tape) is not None:
            outcome = "left out"
        elif write is None:
            outcome = "has no topology"
            print(f"{tape.name}: no topology is written for it")
        else:
            try:
                found = difference(tape, write)
            except Exception as error:
                found = f"{type(error).__name__}: {error}"
            outcome = "equal" if found is None else "differs"
            if found is not None:
                print(f"{tape.name}: {found[:1500]}")
        counts[outcome] += 1
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    return 1 if counts["differs"] or counts["has no topology"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
