"""Exit codes of the command `replay`: one table, which every command uses.

    0    done, or nothing new
    1    error: it could not be done; one sentence on stderr says why
    2    usage: an argument or a setting is wrong
    4    a check failed, two things differ that were compared, nothing could be applied, or too many records were
         refused where that is an error
    130  stopped by Ctrl-C
    143  stopped by SIGTERM

With ``--detailed-exit-code`` (`land`, `run`) two cases of 0 have numbers of their own:

    3    nothing new
    5    done, with warnings
"""

from enum import IntEnum

from ...state.errors import ConfigError, TopologyError


class ExitCode(IntEnum):
    """What the process ends with."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    NOTHING_NEW = 3
    FAILED = 4
    WARNINGS = 5
    INTERRUPTED = 130
    TERMINATED = 143

    def unless_detailed(self, detailed: bool) -> "ExitCode":
        """Without ``--detailed-exit-code``, NOTHING_NEW and WARNINGS are DONE."""
        return ExitCode.DONE if not detailed and self in (ExitCode.NOTHING_NEW, ExitCode.WARNINGS) else self


def exit_code_of(error: BaseException) -> ExitCode:
    """USAGE for a wrong argument or setting; a topology that cannot work is an ERROR like any other."""
    is_usage = isinstance(error, ConfigError) and not isinstance(error, TopologyError)
    return ExitCode.USAGE if is_usage else ExitCode.ERROR
