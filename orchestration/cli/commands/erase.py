"""The command `erase`: the records of a key go for good (jobs/branches/erasure.py). It only lists, unless asked to."""

import getpass

from ....jobs.branches.erasure import Erasure
from ....jobs.branches.erasure import erase as erase_key
from ....state.errors import ConfigError
from ....state.tables.names import TableName
from ....state.tables.sought import Sought
from ....state.tables.warehouse import Warehouse
from ...text_tables import print_json, print_table
from .. import options
from ..command import command, option
from ..exit_codes import ExitCode

_SHOWN = 20


@command()
@options.warehouse
@option("--key", "keys", multiple=True, metavar="K", help="key of the records, as landed; repeatable")
@option("--key-hex", "hex_keys", multiple=True, metavar="HEX", help="such a key that is no text; repeatable")
@option("--topics", required=True, metavar="T,…", help="landed topics that have its records")
@option("--also-bytes", "words", multiple=True, metavar="TEXT", help="rows go that hold this anywhere; repeatable")
@option("--reason", required=True, metavar="TEXT", help="why, for those who find the records missing")
@option("--by", metavar="NAME", help="who erases (default: this user)")
@option("--delete", is_flag=True, help="erase them; without it they are only counted")
@options.as_json
def erase(
    warehouse: str, keys: tuple[str, ...], hex_keys: tuple[str, ...], topics: str, words: tuple[str, ...], reason: str,
    by: str | None, delete: bool, as_json: bool,
) -> int:  # fmt: skip
    """Erase the records of a key, and all rows that have it, from every file of the warehouse, and prove it. The exit
    code is 4 where its bytes are still found somewhere.
    """
    sought = Sought((*(key.encode() for key in keys), *map(_bytes, hex_keys)), tuple(word.encode() for word in words))
    names = [name.strip() for name in topics.split(",") if name.strip()]
    if not names:
        raise ConfigError("--topics", "names of landed topics, with commas", repr(topics), "name at least one")
    done = erase_key(
        Warehouse(warehouse), names, sought, reason, by=getpass.getuser() if by is None else by, delete=delete
    )
    if as_json:
        print_json({
            "is_done": done.is_done,
            "rows": _rows(done),
            "oldest_increment": {part.pipeline: part.oldest for part in done.pipelines},
            "remains": [str(each) for each in done.remains],
        })  # fmt: skip
    else:
        _print(done, sought)
    return ExitCode.FAILED if done.is_done and done.remains else ExitCode.DONE


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ConfigError("--key-hex", "two digits 0 to f a byte", repr(text), "write it as in 0017ff") from None


def _rows(done: Erasure) -> list[dict[str, object]]:
    """How many of each table."""
    lines: list[dict[str, object]] = [
        {"table": TableName.landed(topic), "rows": count} for topic, count in done.landed.items()
    ]
    lines += [{"table": table, "rows": count} for table, count in done.beside.items()]
    lines += [
        {"table": f"{part.pipeline}/{table}", "rows": count}
        for part in done.pipelines
        for table, count in part.rows.items()
    ]
    return lines


def _print(done: Erasure, sought: Sought) -> None:
    if done.is_nothing:
        print("nothing to erase")
    else:
        print_table(_rows(done), ["table", "rows"], thousands=True)
        print("erased" if done.is_done else "would be erased by --delete")
    for part in done.pipelines:
        said = "could then be asked for" if part.oldest is None else "can be asked for"
        oldest = "the increment that erases" if part.oldest is None else f"increment {part.oldest}"
        print(f"{part.pipeline}: {oldest} is the oldest that {said}")
        if part.restates and not part.rows:
            print(f"{part.pipeline}: has read such records and has no row under the key: name what its own keys are")
    for key in sought.unread:
        print(f"what a table has for {key.hex()} is not known from its bytes: name that with --key, too")
    _print_remains(done, sought)


def _print_remains(done: Erasure, sought: Sought) -> None:
    for each in done.remains[:_SHOWN]:
        print(f"{'still there' if done.is_done else 'would stay'}: {each}")
    if len(done.remains) > _SHOWN:
        print(f"and {len(done.remains) - _SHOWN:,} more")
    if done.remains:
        print("name what is beside it with --also-bytes, further topics with --topics, or further keys with --key")
    elif done.is_done:
        print(f"proved: {_proof(sought)}")
    print("results under other keys that were made of these records cannot be known, and stay as they are")


def _proof(sought: Sought) -> str:
    if sought.has_short:
        return "no table holds it as a value or in quotes; a key this short is not sought within other words"
    return "no file of the warehouse holds it"
