"""Everything this package raises.

EnginewrightError
├── TargetError        the target cannot be carried out as written
├── CheckpointError    the checkpoint is damaged, incomplete or of an unknown kind
├── PlanError          a plan breaks a kernel's contract or the graph
├── MachineError       this machine lacks something: compiler, feature, disk, port
├── EngineError        an engine did not start, stopped or answered nonsense
├── ArchiveError       the record could not be read or written
├── UsageError         the command line asks for something impossible
└── InternalError      we broke our own promise; never the user's fault

A bad *candidate* raises nothing: it yields a verdict.
"""

from __future__ import annotations


class EnginewrightError(Exception):
    """Base of all errors a caller may want to catch; `hint` says what to do."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


class TargetError(EnginewrightError):
    """The target cannot be carried out as written."""

    exit_code = 2


class CheckpointError(EnginewrightError):
    """The checkpoint is damaged, incomplete or of an unknown kind."""

    exit_code = 3


class PlanError(EnginewrightError):
    """A plan breaks a kernel's contract or does not fit the graph."""

    exit_code = 4


class MachineError(EnginewrightError):
    """This machine lacks something that the work needs."""

    exit_code = 5


class EngineError(EnginewrightError):
    """An engine did not start, stopped early or answered nonsense."""

    exit_code = 6


class ArchiveError(EnginewrightError):
    """The archive could not be read or written."""

    exit_code = 7


class UsageError(EnginewrightError):
    """The command line asks for something impossible."""

    exit_code = 2


class InternalError(EnginewrightError):
    """We broke our own promise. This is a bug."""

    exit_code = 70
