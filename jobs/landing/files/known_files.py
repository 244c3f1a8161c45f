"""Which files of a directory are new to a topic, and whether what is in them is.

Owns the comparison of a directory with the files that the topic's ledger knows. Rule: a file is known by its path below
the directory that it was landed from; its content is known by its digest, whatever the file is called. A file that was
landed must never change, and no content lands twice unasked. A file that is left out because another folder had it is
reported.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyarrow import fs

from ....state.errors import LandingError
from ....state.tables.ledger import LedgerRow
from ....state.tables.ledger_rows import LandingPlanRow
from ....state.tables.object_stores import open_filesystem
from ..file_source import FileSource
from .beside import with_files_beside
from .entries import entries_of
from .file_order import natural_order
from .named_files import hidden_by, matches
from .streams import FileBeside, FoundFile, digest_like
from .table_folders import refuse_tables
from .verified_files import Verified


class PlanOutdated(Exception):
    """What a plan was made of is not there any more as it was; the plan is given up, and another one made."""


_MAPPING_FREE = ("pattern", "partitions")
"""Fields of a mapping that name the files there are and what is fixed by the first landing, not what a row means."""


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file of a plan. ``folder`` None: of a plan from before, which did not say. ``content``: the digest of what a
    compressed file holds; else that of its bytes. ``beside``: by kind the files beside it, as an entry of the plan has
    them; none in plans from before. ``is_landed``: the plan landed it, and did not only know it by its
    digest. ``is_empty``: nothing of it has landed, as far as the plan says.
    """

    name: str
    folder: str | None
    bytes: int
    mtime_ns: int | None
    digest: str
    content: str
    beside: Mapping[str, Mapping[str, Any]]
    increment: int
    is_landed: bool
    is_empty: bool


def folder_of(source: FileSource) -> str:
    """The directory, as it is called from everywhere on this machine."""
    filesystem, root = open_filesystem(source.path)
    return os.path.abspath(root) if isinstance(filesystem, fs.LocalFileSystem) else source.path


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a directory. ``files``: those that match the pattern, in natural order of their names
    (file_order.py). ``unmatched``: names of those that do not. ``hidden``: names of files that it matches and that are
    left out, since a part of their path begins with ``.`` or ``_`` and is no topic or folder that was named.
    ``of_others``: names of those whose paths have another topic. ``no_files``: names of what is neither file nor
    folder, and what it is.
    """

    files: list[FoundFile]
    unmatched: list[str]
    hidden: list[str]
    of_others: list[str]
    no_files: Mapping[str, str]

    def sentences(self, source: FileSource, topic: str) -> list[str]:
        """What is said of files that are left out, by what they are left out for."""
        said = []
        if self.of_others:
            is_left_out = "is of another topic" if len(self.of_others) == 1 else "are of other topics"
            said.append(
                f"{topic}: {_files(self.of_others)} {is_left_out} than {source.topic or topic} and left out "
                f"({self.of_others[0]})"
            )
        if self.hidden:
            first = hidden_by(self.hidden[0], source.pattern)
            is_left_out = "is" if len(self.hidden) == 1 else "are"
            of_path = source.topic_of_path(self.hidden[0])
            next_step = f"to land {first}, name it (--files {source.path}/{first})"
            if first == self.hidden[0] and of_path is not None and first.rpartition("/")[2].startswith(of_path):
                next_step = f"to land topic {of_path}, name it (--topic-column topic --source-topic {of_path})"
            said.append(
                f"{topic}: {_files(self.hidden)} {is_left_out} left out, as names that begin with . or _ are "
                f"({self.hidden[0]}); {next_step}"
            )
        if self.no_files:
            name, what = next(iter(self.no_files.items()))
            count = len(self.no_files)
            are_no_files = "1 entry is no file" if count == 1 else f"{count:,} entries are no files"
            said.append(f"{topic}: {are_no_files} and left out ({name}, {what})")
        return said


def _files(names: Sequence[str]) -> str:
    return "1 file" if len(names) == 1 else f"{len(names):,} files"


def find_files(source: FileSource, topic: str) -> Listing:
    """The files of the source's directory. LandingError for no directory, for the folder of a table, and for an entry
    that the pattern matches and that cannot be read.
    """
    filesystem, root = open_filesystem(source.path)
    if filesystem.get_file_info(root).type != fs.FileType.Directory:
        raise LandingError(f"topic {topic}", "a directory of files", source.path, "correct the path")
    every, hidden = list[FoundFile](), list[str]()
    entries = entries_of(filesystem, root)
    named = {source.topic or topic, *folder_of(source).split("/")}

    def hides(name: str) -> bool:
        if hidden_by(name, source.pattern) is None:
            return False
        # Sinks put the topic into names of files, and Kafka has topics that begin with _.
        of_path = source.topic_of_path(name)
        return of_path not in named or hidden_by(name, source.pattern, of_path) is not None

    for entry in entries.infos:
        name = entry.path[len(root) :].lstrip("/")
        if entry.type != fs.FileType.File:
            continue
        if not hides(name):
            every.append(FoundFile(name, entry.size, entry.mtime_ns))
        elif matches(name, source.pattern):
            hidden.append(name)
    files = [file for file in every if matches(file.name, source.pattern)]
    unmatched = [file.name for file in every if not matches(file.name, source.pattern)]
    refuse_tables(source.path, topic, filesystem, root, entries, [file.name for file in files])
    others = {n: what for n, what in (entries.unreadable | entries.no_files).items() if not hides(n)}
    for name, what in sorted(others.items()):
        if name in entries.unreadable and matches(name, source.pattern):
            next_step = "put back what it should be, or take it out of the directory"
            raise LandingError(f"topic {topic}, file {source.path}/{name}", "a file that can be read", what, next_step)
    of_others = _of_other_topics(source, topic, files)
    files = with_files_beside(source, [file for file in files if file.name not in of_others], every)
    files.sort(key=lambda file: natural_order(file.name))
    unmatched, hidden = sorted(unmatched, key=natural_order), sorted(hidden, key=natural_order)
    return Listing(files, unmatched, hidden, sorted(of_others, key=natural_order), others)


def _of_other_topics(source: FileSource, topic: str, files: Sequence[FoundFile]) -> set[str]:
    """Names of files whose paths have another topic than the one that lands, where a column says that topic."""
    if source.topic_column is None:
        return set()
    ours = (None, source.topic or topic)
    return {file.name for file in files if source.topic_of_path(file.name) not in ours}


class KnownFiles:
    """The files of a topic's plans, compared with those of ``source``.

    ``again``: files that were known by their digest, since their time or their directory is another one; to be written
    into the next plan, or to be ``verified``, so that nobody reads them once more. ``left_out``: those of another
    directory, with the file that has landed. ``allow_same_content``: a file of a directory from which it has not landed
    is new, also under the name and with the content of one that has.
    """

    def __init__(
        self,
        source: FileSource,
        topic: str,
        plans: Iterable[LedgerRow[LandingPlanRow]],
        *,
        allow_same_content: bool = False,
        verified: Verified | None = None,
    ) -> None:
        self.allow_same_content = allow_same_content
        self.source, self.topic, self.folder = source, topic, folder_of(source)
        self.files: list[KnownFile] = []
        self.again: list[dict[str, Any]] = []
        self.left_out: list[tuple[FoundFile, KnownFile]] = []
        self._verified = dict(verified or {})
        for row in plans:
            self.files += [_known(file, row, is_landed=True) for file in row.content.files or ()]
            self.files += [_known(file, row, is_landed=False) for file in row.content.files_again or ()]
        self._by_name: dict[str, list[KnownFile]] = {}
        for known in self.files:
            self._by_name.setdefault(known.name, []).append(known)

    def new(self, files: Sequence[FoundFile]) -> list[FoundFile]:
        """Those that no plan names. LandingError for one that changed after it was landed."""
        return [file for file in files if not self._is_known(file)]

    def refuse_other_topics(self, new: Sequence[FoundFile]) -> None:
        """Raises LandingError where the paths of ``new`` and of what has landed are of several topics, and no column
        names the one to land.
        """
        if self.source.topic_column is not None or not new:
            return
        names = [*(file.name for file in new), *(known.name for known in self.files if known.is_landed)]
        by_topic = {self.source.topic_of_path(name): name for name in reversed(names)}
        topics = {said: name for said, name in by_topic.items() if said is not None}
        if len(topics) > 1:
            got = ", ".join(f"{said} ({name})" for said, name in sorted(topics.items())[:5])
            raise LandingError(
                f"topic {self.topic}, directory {self.source.path}", "paths of one topic", got,
                f"name the one to land (--topic-column topic --source-topic {min(topics)}), or land the directory "
                "of one of them (--files)",
            )  # fmt: skip

    def verified(self) -> Verified:
        """What was known before, and ``again``: for the next landing, where no plan is written."""
        return self._verified | {self._path(entry["name"]): entry for entry in self.again}

    def sentences(self) -> list[str]:
        """One for every directory because of whose files others were ``left_out``."""
        by_folder: dict[str | None, list[tuple[FoundFile, KnownFile]]] = {}
        for pair in self.left_out:
            by_folder.setdefault(pair[1].folder, []).append(pair)
        return [self._sentence(pairs) for pairs in by_folder.values()]

    def _sentence(self, pairs: Sequence[tuple[FoundFile, KnownFile]]) -> str:
        file, known = pairs[0]
        others = f" (and so are {len(pairs) - 1:,} more files of {self.folder})" if len(pairs) > 1 else ""
        return (
            f"{self.topic}: {self._path(file.name)} is left out{others}: its name and its content are those of "
            f"{known.folder}/{known.name}, which landed by increment {known.increment}; where these are other records, "
            "land them with --allow-same-content"
        )

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def _is_known(self, file: FoundFile) -> bool:
        named = self._by_name.get(file.name, [])
        here = [known for known in named if known.folder in (None, self.folder)]
        # By digest: an entry of `files_again` does not say how many
        # records its file has, and has the digest of one that does.
        empty = {known.digest for known in named if known.is_empty}
        empty -= {known.digest for known in named if known.is_landed and not known.is_empty}
        filled = [known for known in here if known.digest not in empty]
        if filled:  # of which nothing landed before is no matter then
            here, named = filled, [known for known in named if known.digest not in empty]
        is_landed = any(known.is_landed for known in here)
        if self.allow_same_content and not is_landed:
            return False
        # Only files of this directory: elsewhere the same size and
        # time may be of other bytes, so those are compared by digest.
        if any(_has_its_time(file, known) for known in here):
            return True
        candidates = here if self.allow_same_content else named
        of_values = [known for known in candidates if known.bytes == file.bytes and self._is_like(file, known)]
        alike = [known for known in of_values if self._changed_beside(file, known) is None]
        if alike:
            beside = {kind: kept["digest"] for kind, kept in alike[-1].beside.items()}
            self.again.append(file_entry(file, alike[-1].digest, alike[-1].content, beside))
            if not filled and not alike[0].is_empty and alike[0].digest not in empty:
                self.left_out.append((file, alike[0]))
            return True
        if filled:
            changed, before = self._changed(file, here, of_values)
            other = f"{changed.bytes} bytes instead of {before}"
            raise LandingError(
                f"topic {self.topic}, file {self.source.path}/{changed.name}",
                "the file as it was when it was landed",
                other if changed.bytes != before else "other bytes",
                "put the old file back and land what is new under a new name",
            )
        return False

    def _is_like(self, file: FoundFile, known: KnownFile) -> bool:
        verified = self._verified.get(self._path(file.name), {})
        if (verified.get("bytes"), verified.get("mtime_ns"), verified.get("digest")) == (
            file.bytes, file.mtime_ns, known.digest,
        ):  # fmt: skip
            return True
        return digest_like(known.digest, self.source, file.name) == known.digest

    def _changed_beside(self, file: FoundFile, known: KnownFile) -> FileBeside | None:
        """The first of the files beside ``file`` that is another than beside ``known``. A kind that only one of them
        has is no change: the mapping was another one, or the plan is from before.
        """
        verified = self._verified.get(self._path(file.name), {}).get("beside", {})
        for each in file.beside:
            kept = known.beside.get(each.kind)
            if kept is None:
                continue
            entry = _beside_entry(each, kept["digest"])
            if verified.get(each.kind) == entry or (known.folder in (None, self.folder) and kept == entry):
                continue
            if each.bytes != kept["bytes"] or digest_like(kept["digest"], self.source, each.name) != kept["digest"]:
                return each
        return None

    def _changed(
        self, file: FoundFile, here: Sequence[KnownFile], of_values: Sequence[KnownFile]
    ) -> tuple[FoundFile | FileBeside, int]:
        """What of ``file`` and those beside it is not as it landed ``here``, and the bytes that it had then."""
        for known in here:
            if known in of_values and (changed := self._changed_beside(file, known)) is not None:
                return changed, known.beside[changed.kind]["bytes"]
        return file, here[-1].bytes

    def refuse_same_content(self, new: Sequence[Mapping[str, Any]]) -> None:
        """Raises LandingError for a file of ``new`` (of a plan) whose records have landed under another name, or do in
        the same landing. Files without records are no matter.
        """
        contents: dict[str, list[tuple[Mapping[str, Any], str]]] = {}
        for known in self.files:
            landed = f"{known.name}, landed by increment {known.increment}"
            contents.setdefault(known.content, []).insert(0, (known.beside, landed))
        for file in new:
            content, beside = file.get("content", file["digest"]), file.get("beside", {})
            if not file["records"]:
                continue
            of_values = contents.setdefault(content, [])
            same = next((other for kept, other in of_values if _have_equal(beside, kept)), None)
            same = same or self._same_otherwise(file, content)
            if same is not None:
                raise LandingError(
                    f"topic {self.topic}, file {self.source.path}/{file['name']}",
                    "records that have not landed",
                    f"the content of {same}",
                    "take it out of the directory, or land it once more as other records (--allow-same-content)",
                )
            of_values.append((beside, f"{file['name']}, which is new as well"))

    def _same_otherwise(self, file: Mapping[str, Any], content: str) -> str | None:
        """A known file of equal size whose digest was taken in another way."""
        for known in self.files:
            is_other = (":" in known.digest) != (":" in content) and known.content == known.digest
            is_candidate = (
                is_other and known.bytes == file["bytes"] and _have_equal(file.get("beside", {}), known.beside)
            )
            if is_candidate and digest_like(known.digest, self.source, file["name"]) == known.digest:
                return f"{known.name}, landed by increment {known.increment}"
        return None


def _known(file: Mapping[str, Any], row: LedgerRow[LandingPlanRow], *, is_landed: bool) -> KnownFile:
    return KnownFile(
        name=file["name"],
        folder=row.content.folder,
        bytes=file["bytes"],
        mtime_ns=file["mtime_ns"],
        digest=file["digest"],
        content=file.get("content", file["digest"]),
        beside=file.get("beside", {}),
        increment=row.increment,
        is_landed=is_landed,
        is_empty=file["bytes"] == 0 or (file.get("records") == 0 and not file.get("dead_letters")),
    )


def _has_its_time(file: FoundFile, known: KnownFile) -> bool:
    """Have ``file`` and those beside it the sizes and times of ``known``?"""
    times = [(known.bytes, known.mtime_ns) == (file.bytes, file.mtime_ns)]
    for each in file.beside:
        kept = known.beside.get(each.kind)
        times.append(kept is None or kept == _beside_entry(each, kept["digest"]))
    return all(times)


def _have_equal(one: Mapping[str, Mapping[str, Any]], other: Mapping[str, Mapping[str, Any]]) -> bool:
    """Are files beside alike, of the kinds that both have?"""
    return all(one[kind]["digest"] == other[kind]["digest"] for kind in one.keys() & other.keys())


def file_entry(file: FoundFile, digest: str, content: str, beside: Mapping[str, str]) -> dict[str, Any]:
    """A file as a plan keeps it; ``beside``: digests of those beside it, by kind."""
    entry: dict[str, Any] = {"name": file.name, "bytes": file.bytes, "mtime_ns": file.mtime_ns, "digest": digest}
    if content != digest:
        entry["content"] = content
    kept = {each.kind: _beside_entry(each, beside[each.kind]) for each in file.beside if each.kind in beside}
    return {**entry, "beside": kept} if kept else entry


def _beside_entry(file: FileBeside, digest: str) -> dict[str, Any]:
    return {"name": file.name, "bytes": file.bytes, "mtime_ns": file.mtime_ns, "digest": digest}


def mapping_changes(topic: str, before: Mapping[str, Any], now: FileSource, *, refuse: bool) -> dict[str, list[Any]]:
    """Field to [before, now] of the changed settings that decide the meaning of a row; {} if there are none. Raises
    LandingError where there are some and they are to be refused.
    """
    then = FileSource.from_dict(now.path, before).to_dict()
    fields = {name: [then[name], value] for name, value in now.to_dict().items() if name not in _MAPPING_FREE}
    is_open = then["format"] is None or now.format is None
    changes = {n: pair for n, pair in fields.items() if pair[0] != pair[1] and not (is_open and n == "format")}
    if changes and refuse:
        raise LandingError(
            f"topic {topic}",
            "the mapping of its last landing, "
            + ", ".join(f"{name} {before!r}" for name, (before, _) in changes.items()),
            ", ".join(f"{name} {now!r}" for name, (_, now) in changes.items()),
            "correct the mapping, land into a topic of another name, or continue with the new one (--new-mapping)",
        )
    return changes


def refuse_no_match(source: FileSource, topic: str, listing: Listing) -> None:
    """Raises LandingError where there are files, and none that the pattern matches is of the topic."""
    others, expected = listing.unmatched, f"files whose names match {source.pattern!r}"
    next_step = "correct the path or the pattern, or let it match none of the files (--allow-empty)"
    if listing.of_others:
        others, expected = listing.of_others, f"files whose paths have the topic {source.topic or topic}"
        next_step = "name the topic as the paths do (--source-topic), or let it be none of the files (--allow-empty)"
    if others:
        got = f"none of {len(others)} ({', '.join(others[:5])}{', …' if len(others) > 5 else ''})"
        raise LandingError(f"topic {topic}, directory {source.path}", expected, got, next_step)
