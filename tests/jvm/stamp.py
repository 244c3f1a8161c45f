"""``python -m tests.jvm.stamp FILE…``: write what Kafka Streams says into the ``want`` of scenario files."""

import argparse
from pathlib import Path

from tests.conformance import readable
from tests.jvm.oracle import open_oracle


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.jvm.stamp", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="tests/scenarios/<operator>/<fact>.txt")
    files = parser.parse_args().files
    with open_oracle() as oracle:
        stamped = oracle.ask([readable.read(path) for path in files])
    for path, line in zip(files, stamped, strict=True):
        path.write_text(readable.written(line))


if __name__ == "__main__":
    main()
