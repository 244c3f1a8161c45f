"""``KStream.print``: a line for each record, to the process's own output or to a file (Kafka's Printed).

Rule: a line is Kafka's, ``[label]: key, value``, each as Java's ``toString`` has it (java_text.py). An increment that
is run again prints again, and so does each worker.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...state.errors import TopologyError
from .call_names import Hinting
from .expressions import Shape
from .java_text import java_text
from .parameters import of_key_and_value


@dataclass(frozen=True)
class Printed(Hinting):
    """Where records are printed: ``file`` None for the process's output. ``label``: the stream's name if not given;
    ``mapper``: a callable of (key, value) for the whole line behind the label.

        stream.print(Printed.to_sys_out().with_label("clicks"))
    """

    file: str | None = None
    label: str | None = None
    name: str | None = None
    mapper: Callable[[Any, Any], Any] | None = None

    @classmethod
    def to_sys_out(cls) -> "Printed":
        """To the output of the process that runs the task.

        Source: ``Printed.toSysOut``.

            >>> words.print(Printed.to_sys_out())
            >>> show(words.filter("FALSE"))
            [KSTREAM-SOURCE-0000000000]: k, to be
            [KSTREAM-SOURCE-0000000000]: k, or not
        """
        return cls()

    @classmethod
    def to_file(cls, path: str | Path) -> "Printed":
        """To the end of a file on the machine that runs the task. TopologyError for a path that is empty.

        Source: ``Printed.toFile``.

            >>> Printed.to_file("clicks.txt").file
            'clicks.txt'
        """
        if not str(path):
            raise TopologyError("Printed.to_file", "the path of a file", repr(path), "name a file")
        return cls(str(path))

    def with_label(self, label: str) -> "Printed":
        """The same with this label.

        Source: ``Printed.withLabel``.

            >>> words.print(Printed.to_sys_out().with_label("line"))
            >>> show(words.filter("FALSE"))
            [line]: k, to be
            [line]: k, or not
        """
        return replace(self, label=label)

    def with_name(self, name: str) -> "Printed":
        """The same, the operator with this name.

        Source: ``Printed.withName``.

            >>> Printed.to_sys_out().with_name("print-lines").name
            'print-lines'
        """
        return replace(self, name=name)

    def with_key_value_mapper(self, mapper: Callable[[Any, Any], Any]) -> "Printed":
        """The same, its lines what ``mapper`` gives of (key, value).

        Source: ``Printed.withKeyValueMapper``.

            >>> words.print(Printed.to_sys_out().with_label("n").with_key_value_mapper(lambda key, value: len(value)))
            >>> show(words.filter("FALSE"))
            [n]: 5
            [n]: 6
        """
        return replace(self, mapper=of_key_and_value(mapper, "Printed.with_key_value_mapper"))

    def printer(self, stream: str, shape: Shape) -> Callable[[Any, Any], None]:
        """What is called for each record of the ``stream``, which has the types of ``shape``."""
        key_type, value_type = shape.key.arrow_type, shape.value.arrow_type
        label = self.label if self.label is not None else stream

        def printed(key: Any, value: Any) -> None:
            plain = f"{java_text(key, key_type)}, {java_text(value, value_type)}"
            line = f"[{label}]: {plain if self.mapper is None else self.mapper(key, value)}\n"
            if self.file is None:
                sys.stdout.write(line)
                sys.stdout.flush()
                return
            with Path(self.file).open("a", encoding="utf-8") as file:
                file.write(line)

        return printed
