"""How the files below a directory are reached: this machine's disks, or an object store with its options.

Owns the options of object stores. Rule: whoever says how a store is reached says it once, in the words of delta-rs, and
both sides take it: Delta's logs as it is, files by obstore, which has the same client inside. Paths travel alone, to
tasks and in lists of files, so that a process remembers the options by the store (scheme and bucket); a warehouse that
arrives in a worker brings them along.
"""

import os
import re
import uuid
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Any
from urllib.parse import quote, urlsplit

from pyarrow import fs

from ..errors import ConfigError
from ..hidden_values import hide
from ..times import duration_ms

_OPTIONS: dict[str, tuple[tuple[str, str], ...]] = {}
"""Store → its options, in lower case."""

_REFUSES = set[str]()
"""Stores that were seen to refuse a second writer."""

TIMEOUT = "retry_timeout"
"""delta-rs' option: how long a request is tried again."""
TIMEOUT_SECONDS = 120.0

S3 = ("s3", "s3a")
_SCHEMES = (*S3, "az", "azure", "abfs", "abfss")
_UNTRIED = ("gs", "adl", "http", "https", "memory", "r2", "hdfs", "viewfs", "dbfs", "lakefs")
"""Schemes that delta-rs, obstore or pyarrow know, and on which nobody has tried whether of two commits one is
refused."""
_IF_MEANT = ("gs",)
"""Those of them that are taken where the option ``UNTRIED``, or the variable, has their name."""
UNTRIED, UNTRIED_VARIABLE = "untried", "REPLAY_UNTRIED"
_PATIENCE = {"max_retries": "1000", "backoff_config.init_backoff": "100ms", "backoff_config.max_backoff": "5s"}
"""Of Delta; the timeout decides."""
_CLIENT = frozenset(
    {
        "allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "http1_only",
        "http2_only", "http2_keep_alive_interval", "http2_keep_alive_timeout", "http2_keep_alive_while_idle",
        "pool_idle_timeout", "pool_max_idle_per_host", "proxy_url", "proxy_ca_certificate", "proxy_excludes",
        "randomize_addresses", "timeout", "user_agent",
    }
)  # fmt: skip
"""Options of the connections, which some write with the prefix `aws_`."""
_DELTA_ALONE = (TIMEOUT, "max_retries", "backoff_config", "aws_s3_allow_unsafe_rename", "allow_unsafe_rename",
                "aws_s3_locking_provider", "delta_dynamo", "dynamo")  # fmt: skip
"""Beginnings of options that say nothing about files."""
_OTHER_COMMITS = ("s3_locking_provider", "allow_unsafe_rename", "conditional_put")
"""In the names of options."""
_ENCODED = re.compile("%[0-9A-Fa-f]{2}")


def remember_options(directory: str, options: Mapping[str, str] | None, timeout: str | None = None) -> None:
    """From now on this process reaches the store of ``directory`` with ``options``; None or none: nothing is said.
    ``timeout``: how long a request that fails is tried again, such as "5m".

    Raises ConfigError for options of a plain path, which nobody would read, and for a timeout that is none.
    """
    said = {name.lower(): str(value) for name, value in (options or {}).items()}
    if timeout is not None:
        said[TIMEOUT] = timeout
    if not said:
        return
    if "://" not in directory:
        raise ConfigError(
            f"storage options {', '.join(sorted(options or said))}", "a warehouse that is a URI", repr(directory),
            "leave them out, or name a URI such as s3://bucket/warehouse",
        )  # fmt: skip
    hide(said)
    if TIMEOUT in said:
        said[TIMEOUT] = f"{duration_ms(said[TIMEOUT], 'storage timeout')}ms"
    _OPTIONS[_store_of(directory)] = tuple(sorted(said.items()))


def options_of(directory: str) -> dict[str, str] | None:
    """The options that this process was given for the store of ``directory``; None: no options."""
    options = _OPTIONS.get(_store_of(directory)) if "://" in directory else None
    return None if options is None else dict(options)


def delta_options(directory: str) -> dict[str, str] | None:
    """What Delta is given for a table below ``directory``; None: nothing, it is on this machine."""
    if not is_remote(directory):
        return None
    refuse_untried(directory)
    said = options_of(directory) or {}
    said.pop(UNTRIED, None)
    return {**_PATIENCE, TIMEOUT: f"{round(timeout_seconds(directory) * 1000)}ms", **said}


def timeout_seconds(directory: str) -> float:
    """How long a request to the store of ``directory`` is tried again."""
    said = (options_of(directory) or {}).get(TIMEOUT)
    return TIMEOUT_SECONDS if said is None else duration_ms(said, "storage timeout") / 1000


def is_remote(directory: str) -> bool:
    """Whether it is not on the disks of this machine."""
    return "://" in directory and not directory.startswith("file://")


def is_locked_elsewhere(directory: str) -> bool:
    """Whether Delta was given another way of committing to the store of ``directory`` than a conditional put."""
    said = {*(options_of(directory) or {}), *(name.lower() for name in os.environ)}
    return any(word in name for name in said for word in _OTHER_COMMITS)


def open_filesystem(directory: str) -> tuple[fs.FileSystem, str]:
    """The file system of ``directory`` as pyarrow takes it, and the path in it, of an object store with its bucket in
    front; plain paths are local. Raises ConfigError for a scheme that was never tried, and for what is no URI.
    """
    if "://" not in directory:
        return fs.LocalFileSystem(), directory
    if not is_remote(directory):
        try:
            filesystem, path = fs.FileSystem.from_uri(directory)
        except ValueError:  # as which Arrow has its own
            next_step = "encode what no URI has (%20 for a blank, %25 for a percent sign), or name the plain path"
            raise ConfigError(repr(directory), "a URI of this machine", "what is none", next_step) from None
        return filesystem, path
    refuse_untried(directory)
    scheme, _, path = directory.partition("://")
    return _opened(scheme, path.partition("/")[0], _OPTIONS.get(_store_of(directory), ())), path


def joined(directory: str, name: str) -> str:
    """``name`` below ``directory``, as ``open_filesystem`` takes it: it decodes a URI of this machine as a whole."""
    return f"{directory}/{quote(name) if directory.startswith('file://') else name}"


def has_folder(directory: str) -> bool:
    """Whether it is there."""
    filesystem, root = open_filesystem(directory)
    is_there: bool = filesystem.get_file_info(root).type == fs.FileType.Directory
    return is_there


def delete_folder(directory: str) -> None:
    """Delete it with all that is in it, where it is there."""
    if has_folder(directory):
        filesystem, root = open_filesystem(directory)
        filesystem.delete_dir(root)


def refuse_overwriting(directory: str) -> None:
    """Raises ConfigError where the store of ``directory`` lets a second writer put a file in the place of one that is
    to be made once: of two runners there both would win. It is tried with a small file, once a process and store.
    """
    if is_remote(directory) and (store := _store_of(directory)) not in _REFUSES:
        filesystem, path = open_filesystem(directory)
        if not filesystem.handler.makes_once(f"{path}/_probe-{uuid.uuid4().hex}"):
            raise ConfigError(
                store, "a store that refuses to make a file again (put if absent: If-None-Match)",
                "one that overwrites it",
                "name another store; without that two runners could both commit the same increment",
            )  # fmt: skip
        _REFUSES.add(store)


def refuse_untried(directory: str) -> None:
    """Raises ConfigError for a scheme on which the commits of two runners were never tried, unless it is meant."""
    scheme = urlsplit(directory).scheme
    if scheme in _SCHEMES:
        return
    next_step = "name one of these"
    if scheme in _IF_MEANT:
        if (options_of(directory) or {}).get(UNTRIED, os.environ.get(UNTRIED_VARIABLE)) == scheme:
            return
        next_step += f"; or take it untried: --storage-option {UNTRIED}={scheme}, or {UNTRIED_VARIABLE}={scheme}"
    known = ", ".join(f"{each}://" for each in _SCHEMES)
    what = f"{scheme}://" + (", which nobody has tried" if scheme in _UNTRIED else "")
    raise ConfigError(repr(directory), f"a folder, or a URI of {known}", what, next_step)


def refuse_encoded(place: str, directory: str) -> None:
    """Raises ConfigError for a path of this machine with a percent sign and two hexadecimal digits. ``place``: named in
    the error. Delta decodes these once more, and reads and writes the log of the folder with the decoded name.
    """
    if not is_remote(directory) and (sign := _ENCODED.search(open_filesystem(directory)[1])) is not None:
        expected = "a path without a percent sign before two hexadecimal digits, which Delta takes for another path"
        raise ConfigError(place, expected, f"{sign[0]} in {directory!r}", "rename the folder")


def _store_of(directory: str) -> str:
    parts = urlsplit(directory)
    # s3a:// is Hadoop's name for the same buckets, so both names share their options.
    return f"{'s3' if parts.scheme in S3 else parts.scheme}://{parts.netloc}"


@cache
def _opened(scheme: str, bucket: str, options: tuple[tuple[str, str], ...]) -> fs.FileSystem:
    """One a store and its options, since each has connections of its own."""
    from . import object_files  # here, since most processes ask no store

    url = f"{scheme}://{bucket}"
    return fs.PyFileSystem(
        object_files.ObjectFiles(_store(scheme, url, dict(options)), bucket, url, timeout_seconds(url))
    )


def _store(scheme: str, url: str, given: dict[str, str]) -> Any:
    """obstore's. What options do not say is taken from the environment (AWS_…, GOOGLE_…, AZURE_…), as Delta does."""
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    _refuse_half(given)
    named = {name.removeprefix("aws_"): name for name in given}
    client = {short: given[name] for short, name in named.items() if short in _CLIENT}
    # obstore refuses an option that it does not know, and delta-rs has some of its own.
    words = {
        name: value
        for name, value in given.items()
        if name.removeprefix("aws_") not in _CLIENT and not name.startswith((*_DELTA_ALONE, UNTRIED))
    }
    retry = {
        "max_retries": 1000,
        "retry_timeout": timedelta(seconds=timeout_seconds(url)),
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
    }
    try:
        own = _own_credentials(given) if scheme in S3 else {}
        return from_url(url, config=words, client_options=client, retry_config=retry, **own)  # type: ignore[call-overload]
    except (BaseError, ValueError, TypeError) as error:
        said = str(error).partition("\n")[0]
        next_step = "correct it; the names are those of delta-rs and obstore"
        raise ConfigError(f"storage options of {url}", "options of this kind of store", said, next_step) from None


def _own_credentials(given: Mapping[str, str]) -> dict[str, Any]:
    """Of a profile (``~/.aws``), which Delta reads by itself and obstore by boto3; {}: there is none, or what is said
    elsewhere counts first.
    """
    said = {name.removeprefix("aws_") for name in given} & {"access_key_id", "skip_signature"}
    kept = os.environ.get("AWS_SHARED_CREDENTIALS_FILE", os.path.expanduser("~/.aws/credentials"))
    has_profile = "AWS_PROFILE" in os.environ or os.path.exists(kept)
    if said or not has_profile or "AWS_ACCESS_KEY_ID" in os.environ or "AWS_WEB_IDENTITY_TOKEN_FILE" in os.environ:
        return {}
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        next_step = "install boto3, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        raise ConfigError("credentials of S3", "boto3, which reads a profile", "no such package", next_step) from None
    return {"credential_provider": Boto3CredentialProvider()}


def _refuse_half(given: Mapping[str, str]) -> None:
    keys = ("aws_access_key_id", "access_key_id"), ("aws_secret_access_key", "secret_access_key")
    first, second = (any(name in given for name in names) for names in keys)
    if first != second:
        got = "the first" if first else "the second"
        raise ConfigError(
            "storage options", "aws_access_key_id and aws_secret_access_key, both or none", f"{got} alone",
            "give both, or leave both to the AWS_… variables",
        )  # fmt: skip
