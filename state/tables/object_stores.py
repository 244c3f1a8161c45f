"""How pyarrow reaches the files below a directory: this machine's disks, or an object store with its options.

Owns the options of object stores. Rule: whoever says how a store is reached says it once, and both sides take it: Delta
(delta-rs) as it is, pyarrow in its own words. Paths travel alone, to tasks and in lists of files, so that a process
remembers the options by the store (scheme and bucket); a warehouse that arrives in a worker brings them along.
"""

import os
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from pyarrow import fs

from ..errors import ConfigError
from ..hidden_values import hide

_OPTIONS: dict[str, tuple[tuple[str, str], ...]] = {}
"""Store → its options, in lower case."""

S3 = ("s3", "s3a")
_S3_WORDS = {
    "access_key": ("aws_access_key_id", "access_key_id"),
    "secret_key": ("aws_secret_access_key", "secret_access_key"),
    "session_token": ("aws_session_token", "session_token", "aws_token", "token"),
    "region": ("aws_region", "region", "aws_default_region", "default_region"),
    "endpoint_override": ("aws_endpoint_url", "endpoint_url", "aws_endpoint", "endpoint"),
    "force_virtual_addressing": ("aws_virtual_hosted_style_request", "virtual_hosted_style_request"),
    "anonymous": ("aws_skip_signature", "skip_signature"),
}
"""pyarrow's word → Delta's, any of which may be used."""
_YES = ("true", "1", "yes", "on")


def remember_options(directory: str, options: Mapping[str, str] | None) -> None:
    """From now on this process reaches the store of ``directory`` with ``options``; None or none: nothing is said.

    Raises ConfigError for options of a plain path, which nobody would read.
    """
    if not options:
        return
    if "://" not in directory:
        raise ConfigError(
            f"storage options {', '.join(sorted(options))}", "a warehouse that is a URI", repr(directory),
            "leave them out, or name a URI such as s3://bucket/warehouse",
        )  # fmt: skip
    hide(options)
    _OPTIONS[_store_of(directory)] = tuple(sorted((name.lower(), str(value)) for name, value in options.items()))


def options_of(directory: str) -> dict[str, str] | None:
    """The options that this process was given for the store of ``directory``; None: no options."""
    options = _OPTIONS.get(_store_of(directory)) if "://" in directory else None
    return None if options is None else dict(options)


def open_filesystem(directory: str) -> tuple[fs.FileSystem, str]:
    """pyarrow's file system of ``directory`` and the path in it; plain paths are local."""
    if "://" not in directory:
        return fs.LocalFileSystem(), directory
    options = _OPTIONS.get(_store_of(directory))
    scheme, _, path = directory.partition("://")
    if options is not None and scheme in S3:
        return _s3(options), path
    filesystem, path = fs.FileSystem.from_uri(directory)
    return filesystem, path


def _store_of(directory: str) -> str:
    parts = urlsplit(directory)
    return f"{'s3' if parts.scheme in S3 else parts.scheme}://{parts.netloc}"


@cache
def _s3(options: tuple[tuple[str, str], ...]) -> fs.S3FileSystem:
    """One a set of options, since each has connections of its own. What options do not say is taken from the
    environment (AWS_…), as pyarrow and Delta do by themselves.
    """
    given = dict(options)
    said: dict[str, Any] = {}
    for word, names in _S3_WORDS.items():
        found = next((given[name] for name in names if name in given), None)
        if found is not None:
            said[word] = found.lower() in _YES if word in ("force_virtual_addressing", "anonymous") else found
    if ("access_key" in said) != ("secret_key" in said):
        got = "the first" if "access_key" in said else "the second"
        raise ConfigError(
            "storage options", "aws_access_key_id and aws_secret_access_key, both or none", f"{got} alone",
            "give both, or leave both to the AWS_… variables",
        )  # fmt: skip
    said.setdefault("region", os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1")
    endpoint = urlsplit(said.get("endpoint_override", ""))
    if endpoint.scheme:
        said |= {"scheme": endpoint.scheme, "endpoint_override": f"{endpoint.netloc}{endpoint.path}".rstrip("/")}
    return fs.S3FileSystem(**said)
