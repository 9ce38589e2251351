"""All errors that stancoreset raises deliberately.

A message names the variable, file or option at fault, the value seen, the value
expected, and what to do. The command line prints it on one line and exits with code 2.
"""

from __future__ import annotations

__all__ = [
    "BrokenEngineError",
    "CertificateError",
    "CompileError",
    "ControlError",
    "DataError",
    "EngineError",
    "EngineNotFoundError",
    "IdentityError",
    "ImproperPosteriorError",
    "ModeAtInfinityError",
    "NoCoresetError",
    "OptionError",
    "OutputError",
    "ProgramError",
    "ReferenceFitError",
    "SolverError",
    "StancoresetError",
    "WeaveError",
]


class StancoresetError(Exception):
    """Base class of all errors that stancoreset raises deliberately."""


class OptionError(StancoresetError, ValueError):
    """An argument or command-line option has a value that cannot be used."""


class DataError(StancoresetError, ValueError):
    """The data are missing, unreadable, of the wrong type or shape, or not finite."""


class ProgramError(StancoresetError):
    """A Stan program cannot be used: invalid syntax, no weights, no observation axis, ..."""


class IdentityError(ProgramError):
    """A numerical identity of a weighted program fails: its weights are wrong."""


class EngineError(StancoresetError):
    """Stan itself failed; the message contains Stan's own message."""


class EngineNotFoundError(EngineError):
    """The requested engine is not installed; the message says how to install it."""


class BrokenEngineError(EngineNotFoundError):
    """The engine's folder is incomplete; the message says what is wrong with it."""


class CompileError(EngineError, ProgramError):
    """A Stan program does not compile; the message contains Stan's line and message."""


class ControlError(StancoresetError):
    """No control variate: a derivative is not finite, or the centre lies outside the support."""


class ReferenceFitError(StancoresetError):
    """No usable reference distribution: mode at infinity, indefinite Hessian, ..."""


class ModeAtInfinityError(ReferenceFitError):
    """The posterior mode lies at infinity: separated data under a flat prior, no posterior."""


class ImproperPosteriorError(ModeAtInfinityError):
    """There is no posterior: its density has no finite integral, whatever chains do."""


class NoCoresetError(StancoresetError, AttributeError):
    """A fit has no coreset: its draws are those of a Gaussian, or of the posterior itself."""


class SolverError(StancoresetError, ValueError):
    """The arrays or options given to a selection algorithm cannot be used."""


class CertificateError(StancoresetError):
    """A certificate cannot be computed from these arguments."""


class OutputError(StancoresetError):
    """A folder or file cannot be written, or was not written by stancoreset."""


class WeaveError(ProgramError):
    """A program cannot be weighted row by row; `line` and `reason` say where and why.

    Parameters
    ----------
    line : int
        Line of the user's source; 0 if the program as a whole is at fault.
    why : str
        Why its rows cannot be weighted.
    statement : str, optional
        The statement at fault.
    advice : str, optional
        What to write instead, where `why` does not say so.

    Attributes
    ----------
    reason : str
        `why` and `advice`.
    """

    def __init__(self, line: int, why: str, statement: str = "", *, advice: str = "") -> None:
        self.line = line
        self.why = why
        self.statement = statement
        self.advice = advice
        self.reason = f"{why}; {advice}" if advice else why
        where = f"line {line}: " if line else ""
        what = f"\n  {statement.splitlines()[0]}" if statement else ""
        super().__init__(f"{where}{self.reason}{what}")
