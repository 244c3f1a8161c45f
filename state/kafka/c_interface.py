"""librdkafka's C interface, of the copy that confluent-kafka brings along.

Owns the names and types of its functions, and that they are found. Rule: Python calls them by ctypes, kernels by their
symbols, and interpreted kernels as Python does. confluent-kafka's own messages are an object of Python each, which
takes six times the CPU seconds.
"""

import ctypes
import ctypes.util
from collections.abc import Mapping
from functools import cache
from typing import Any

from ..errors import MachineError
from ..extras import how_to_install

_POINTER, _TEXT, _SIZE, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int

_SIGNATURES: Mapping[str, tuple[Any, ...]] = {
    "rd_kafka_conf_new": (_POINTER,),
    "rd_kafka_conf_set": (_INT, _POINTER, _TEXT, _TEXT, _POINTER, _SIZE),
    "rd_kafka_conf_destroy": (None, _POINTER),
    "rd_kafka_new": (_POINTER, _INT, _POINTER, _POINTER, _SIZE),
    "rd_kafka_poll_set_consumer": (_INT, _POINTER),
    "rd_kafka_topic_partition_list_new": (_POINTER, _INT),
    "rd_kafka_topic_partition_list_add": (_POINTER, _POINTER, _TEXT, ctypes.c_int32),
    "rd_kafka_topic_partition_list_set_offset": (_INT, _POINTER, _TEXT, ctypes.c_int32, ctypes.c_int64),
    "rd_kafka_topic_partition_list_destroy": (None, _POINTER),
    "rd_kafka_incremental_assign": (_POINTER, _POINTER, _POINTER),
    "rd_kafka_incremental_unassign": (_POINTER, _POINTER, _POINTER),
    "rd_kafka_mem_malloc": (_POINTER, _POINTER, _SIZE),
    "rd_kafka_committed": (_INT, _POINTER, _POINTER, _INT),
    "rd_kafka_consumer_group_metadata_new": (_POINTER, _TEXT),
    "rd_kafka_consumer_group_metadata_destroy": (None, _POINTER),
    "rd_kafka_send_offsets_to_transaction": (_POINTER, _POINTER, _POINTER, _POINTER, _INT),
    "rd_kafka_error_code": (_INT, _POINTER),
    "rd_kafka_error_string": (_TEXT, _POINTER),
    "rd_kafka_error_destroy": (None, _POINTER),
    "rd_kafka_queue_get_consumer": (_POINTER, _POINTER),
    "rd_kafka_queue_destroy": (None, _POINTER),
    "rd_kafka_consume_batch_queue": (ctypes.c_ssize_t, _POINTER, _INT, _POINTER, _SIZE),
    "rd_kafka_message_errstr": (_TEXT, _POINTER),
    "rd_kafka_consumer_close": (_INT, _POINTER),
    "rd_kafka_destroy": (None, _POINTER),
}
"""Result, then arguments."""
_OF_KERNELS = {
    "rd_kafka_message_timestamp": ("int64", "intp", "intp"),
    "rd_kafka_message_headers": ("int32", "intp", "intp"),
    "rd_kafka_message_destroy": ("void", "intp"),
    "rd_kafka_header_cnt": ("intp", "intp"),
    "rd_kafka_header_get_all": ("int32", "intp", "intp", "intp", "intp", "intp"),
    "strlen": ("intp", "intp"),
    "memcpy": ("intp", "intp", "intp", "intp"),
}
_OF_C = {"strlen", "memcpy"}
_KINDS = {"int64": ctypes.c_int64, "int32": ctypes.c_int32, "intp": ctypes.c_ssize_t, "void": None}


class CFunction:
    """A function of C that kernels call, interpreted ones too. Addresses are whole numbers."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *arguments: Any) -> Any:
        return _found(self.name)(*map(int, arguments))

    @property
    def _numba_type_(self) -> Any:
        """What Numba asks a value for that a function names, before it compiles the function in any process."""
        _let_kernels_find(self.name)
        from numba.core import types
        from numba.core.typing.templates import signature

        result, *arguments = (getattr(types, kind) for kind in _OF_KERNELS[self.name])
        return types.ExternalFunction(self.name, signature(result, *arguments))  # type: ignore[no-untyped-call]


@cache
def _found(name: str) -> Any:
    function = getattr(_library_of(name), name)
    result, *arguments = (_KINDS[kind] for kind in _OF_KERNELS[name])
    function.restype, function.argtypes = result, arguments
    return function


def _library_of(name: str) -> Any:
    return ctypes.CDLL(None) if name in _OF_C else _library()


@cache
def _library() -> Any:
    """Whatever librdkafka confluent-kafka's module was linked with, looked up as that module does."""
    try:
        from confluent_kafka import cimpl

        return ctypes.CDLL(cimpl.__file__)
    except (ImportError, OSError) as error:
        expected = "Kafka's client confluent-kafka"
        raise MachineError("this Python", expected, str(error), how_to_install("confluent_kafka")) from error


@cache
def librdkafka() -> Any:
    """The library, whose functions have their types. Raises MachineError where it is not there, or lacks one."""
    library = _library()
    try:
        for name, (result, *arguments) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        for name in _OF_KERNELS:
            _found(name)
    except AttributeError as error:
        expected, got = "librdkafka 1.6 or later behind confluent-kafka", str(error)
        raise MachineError("this Python", expected, got, how_to_install("confluent_kafka")) from error
    return library


def let_kernels_find_it() -> None:
    """Before a compiled kernel is loaded that calls one of these."""
    for name in _OF_KERNELS:
        _let_kernels_find(name)


@cache
def _let_kernels_find(name: str) -> None:
    import llvmlite.binding

    if name not in _OF_C:
        llvmlite.binding.add_symbol(name, ctypes.cast(_found(name), ctypes.c_void_p).value)
