"""Where the product turns bytes or names into code: every such place, what it may read, and that there is no other.

Rule: nothing that is read from a warehouse, a cache, a bucket or a hint is unpickled, evaluated or imported. A use that
is not in the table below makes the test fail; whoever adds it says what it reads.
"""

import ast
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.source_tree import package_modules

pytestmark = pytest.mark.xdist_group("source tree")  # read and parsed once

MODULES = frozenset({
    "cloudpickle", "code", "codeop", "ctypes", "dill", "imp", "joblib", "jsonpickle", "marshal", "pickle", "pty",
    "ruamel", "runpy", "shelve", "yaml",
})  # fmt: skip
"""What makes objects or code of bytes; each use of one is found."""
NAMES = frozenset({"__import__", "compile", "eval", "exec"})
"""Python's own."""
ATTRIBUTES = frozenset({
    "allow_pickle", "CPickleSerializer", "deserialize", "exec_module", "FileDataContext", "find_spec", "import_module",
    "load_module", "module_from_spec", "read_pickle", "register_pickle_by_value", "spec_from_file_location",
    "spec_from_loader", "Unpickler", "unsafe_load",
})  # fmt: skip
"""Functions and arguments, of whatever module."""

USER = "code of whoever writes the topology, from a file or module that the command or definition names"
OWN = "modules of this package alone, by names in its source"

C_TYPES = {"c_void_p": 2, "c_char_p": 1, "c_size_t": 1, "c_int": 1, "c_int64": 2, "c_int32": 3, "c_ssize_t": 2}
LISTED_TYPES = {"c_char_p": 1, "c_int": 3, "c_int32": 1, "c_int64": 1, "c_size_t": 1, "c_void_p": 4}

USES: dict[str, dict[str, tuple[int, str]]] = {
    "expectations/suites/project_suites.py": {
        "yaml.safe_load": (1, "suites of the user; it makes no objects"),
        "yaml.YAMLError": (1, "an error"),
        "spec_from_file_location": (1, "suites of the user that are Python, in the folder that is named"),
        "module_from_spec": (1, "likewise"),
        "exec_module": (1, "likewise"),
    },
    "jobs/execution/spark_members.py": {
        "pickle.dumps": (1, "a number, which Spark hands to its own worker"),
        "CPickleSerializer": (1, "of Spark, between its driver and its workers"),
    },
    "jobs/execution/spark_runner.py": {
        "cloudpickle.dumps": (2, "the user's topology and the descriptions of tasks"),
        "pickle.loads": (1, "these, in a closure that has travelled by Spark"),
    },
    "jobs/execution/state_learner.py": {
        "cloudpickle.dump": (1, "a lesson, into a file without a name"),
        "pickle.load": (1, "that file, as standard input of the process that the worker has started"),
    },
    "jobs/functions/expression_text.py": {
        "pickle.loads": (1, "a function of whoever writes the topology, which polars has just pickled in this process"),
    },
    "jobs/functions/callable_bodies.py": {"the text 'eval'": (1, "how ast reads an expression; nothing is run")},
    "jobs/functions/decorated_functions.py": {
        "compile": (1, "a call with a wrapper's own parameters; its instructions are compared, never run"),
        "the text 'eval'": (1, "what kind of code that is"),
    },
    "jobs/functions/folds/expressed/instructions.py": {
        "deserialize": (1, "JSON of polars, made of an expression of the user's topology in the line before"),
    },
    "jobs/functions/row_independence.py": {
        "deserialize": (1, "JSON of polars, made of an expression of the user's topology in the lines before"),
    },
    "jobs/graph/graph.py": {"import_module": (1, OWN)},
    "jobs/landing/__init__.py": {"import_module": (1, OWN)},
    "jobs/replay/__init__.py": {"import_module": (1, OWN)},
    "kstreams_replay/__init__.py": {"import_module": (1, OWN)},
    "orchestration/cli/main.py": {"import_module": (1, OWN)},
    "orchestration/settings/topology_loading.py": {
        "import_module": (1, USER),
        "spec_from_file_location": (1, USER),
        "module_from_spec": (1, USER),
        "exec_module": (1, USER),
        "cloudpickle.register_pickle_by_value": (1, USER),
    },
    "state/compilation/kernel_cache.py": {
        "import_module": (1, "modules of kernels that the parent process has called, by its pipe"),
    },
    "state/extras.py": {"the text 'yaml'": (1, "a name of a package that may be missing; nothing is imported by it")},
    "state/kafka/c_interface.py": {
        "ctypes.CDLL": (2, "the library that the installed confluent_kafka was linked with, and this process"),
        "ctypes.cast": (1, "the address of a function of that library"),
        **{f"ctypes.{name}": (count, "a type") for name, count in C_TYPES.items()},
    },
    "state/kafka/group_offsets.py": {
        "ctypes.Structure": (2, "an offset of librdkafka, and its list of them"),
        "ctypes.POINTER": (1, "a type"),
        "ctypes.memmove": (1, "a text into that list, whose length was asked for"),
        "ctypes.string_at": (1, "a text of that list, of the length that it says"),
        **{f"ctypes.{name}": (count, "a type") for name, count in LISTED_TYPES.items()},
    },
    "state/kafka/committed_records.py": {"ctypes.create_string_buffer": (1, "room for an error's text")},
    "state/serdes/rebuilding.py": {
        "exec": (1, "source made of the types of a serde of the topology; names of fields are literals in it"),
    },
}  # fmt: skip
"""Of each file: what it uses, how often, and what that may read."""


def uses(tree: ast.Module) -> Iterator[str]:
    """Every use of MODULES, NAMES and ATTRIBUTES in a module; of what is imported from one of MODULES, the import."""
    nodes = list(ast.walk(tree))
    aliases: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            roots = {each.asname or each.name.partition(".")[0]: each.name.partition(".")[0] for each in node.names}
            aliases |= {alias: root for alias, root in roots.items() if root in MODULES}
        elif isinstance(node, ast.ImportFrom):
            source = (node.module or "").partition(".")[0] if node.level == 0 else ""
            if source in MODULES:
                yield from (f"{source}.{each.name}" for each in node.names)
            aliases |= {each.asname: each.name for each in node.names if each.asname and each.name in ATTRIBUTES}
    for node in nodes:
        if isinstance(node, ast.Attribute):
            root = aliases.get(node.value.id, "") if isinstance(node.value, ast.Name) else ""
            if root in MODULES:
                yield f"{root}.{node.attr}"
            elif node.attr in ATTRIBUTES:
                yield node.attr
        elif isinstance(node, ast.Name) and (name := aliases.get(node.id, node.id)) in NAMES | ATTRIBUTES:
            yield name
        elif isinstance(node, ast.keyword) and node.arg in ATTRIBUTES:
            yield node.arg
        elif isinstance(node, ast.Constant) and node.value in MODULES | NAMES:
            yield f"the text {node.value!r}"  # import_module("pickle"), getattr(builtins, "eval")


def test_every_place_that_makes_code_of_bytes_or_names_is_known():
    got = {path: dict(Counter(uses(tree))) for path, tree in package_modules().items()}
    got = {path: found for path, found in got.items() if found}
    want = {path: {what: count for what, (count, _) in found.items()} for path, found in USES.items()}

    assert got == want, "say in USES what it may read; nothing from a warehouse, a cache, a bucket or a hint"


def test_uses_are_found_under_every_name():
    tree = ast.parse("""
import pickle as p, json
from yaml import load as read
from importlib import import_module as bring
import importlib
p.loads(b"")
bring("x")
importlib.import_module("marshal")
eval("1")
numpy.load(f, allow_pickle=True)
run = exec
""")

    assert Counter(uses(tree)) == {
        "pickle.loads": 1, "yaml.load": 1, "import_module": 2, "the text 'marshal'": 1, "eval": 1, "allow_pickle": 1,
        "exec": 1,
    }  # fmt: skip
