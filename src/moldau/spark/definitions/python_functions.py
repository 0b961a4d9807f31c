"""The Python functions of a file: those that `pyspark.sql.functions.udf`, `pandas_udf` and `arrow_udf` have made."""

from __future__ import annotations

import functools
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from pyspark.util import PythonEvalType

from moldau.errors import MoldauError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BY_BATCHES = (PythonEvalType.SQL_SCALAR_PANDAS_ITER_UDF, PythonEvalType.SQL_SCALAR_ARROW_ITER_UDF)
_SCALAR = (
    PythonEvalType.SQL_BATCHED_UDF,
    PythonEvalType.SQL_ARROW_BATCHED_UDF,
    PythonEvalType.SQL_SCALAR_PANDAS_UDF,
    PythonEvalType.SQL_SCALAR_ARROW_UDF,
    *_BY_BATCHES,
)


class FunctionFileError(MoldauError):
    """A file of Python functions cannot be used; the message has its name, and the line if one is to blame."""


class _FunctionFailedError(Exception):
    """In a worker: the name of the function, with its own error."""


def functions_of(path: Path) -> dict[str, Any]:
    """What `register_function` takes, by the names in the file. A Spark session runs: types such as "int" need it.
    Raises FunctionFileError."""
    # not among sys.modules: then the functions are pickled with their code, and no worker imports the file
    module = ModuleType(f"functions_{path.stem}")
    module.__file__ = str(path)
    try:
        code = compile(path.read_bytes(), str(path), "exec")
        exec(code, module.__dict__)  # the operator's own file, named on the command line
    except OSError as error:
        raise FunctionFileError(f"{path}: {error.strerror or error}") from error
    except (SyntaxError, ValueError) as error:
        line = error.lineno if isinstance(error, SyntaxError) and error.filename == str(path) else _line(path)
        raise _error(path, line, error) from error
    except (Exception, SystemExit) as error:  # a module may raise anything
        raise _error(path, _line(path), error) from error
    found = {name: one for name, one in vars(module).items() if not name.startswith("_") and _is_function(one)}
    if not found:
        raise FunctionFileError(f"{path} has no function: decorate one with @udf of pyspark.sql.functions")
    for name, one in found.items():
        if one.evalType not in _SCALAR:
            raise FunctionFileError(f"{path}: {name} gives no value for each row: only scalar functions are served")
    return {name: _copy(name, one) for name, one in found.items()}


def register_function(spark: SparkSession, name: str, function: Any) -> None:
    """Queries of this session may call it from then on."""
    spark.udf.register(name, function)


def usage_of(name: str, function: Any) -> str:
    """How it is called, and its type."""
    try:
        parameters = ", ".join(inspect.signature(function.func).parameters)
    except ValueError:  # of a type or function in C
        parameters = "..."
    return f"{name}({parameters}) RETURNS {function.returnType.simpleString()}"


def _is_function(value: object) -> bool:
    return callable(value) and all(hasattr(value, name) for name in ("func", "evalType", "asNondeterministic"))


def _copy(name: str, function: Any) -> Any:
    """With a name for its errors."""
    named = _named_batches if function.evalType in _BY_BATCHES else _named
    return SimpleNamespace(
        func=named(name, function.func),
        returnType=function.returnType,
        evalType=function.evalType,
        deterministic=function.deterministic,
        asNondeterministic=function.asNondeterministic,
    )


def _named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*values: Any, **named: Any) -> Any:
        try:
            return function(*values, **named)
        except Exception as error:
            raise _FunctionFailedError(f"{type(error).__name__}: {error} (in the function {name})") from error

    return call


def _named_batches(name: str, function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    @functools.wraps(function)
    def call(*values: Any, **named: Any) -> Iterator[Any]:
        try:
            yield from function(*values, **named)
        except Exception as error:
            raise _FunctionFailedError(f"{type(error).__name__}: {error} (in the function {name})") from error

    return call


def _line(path: Path) -> int | None:
    """The last line of the file that ran, of the exception that is handled."""
    frames = traceback.extract_tb(sys.exc_info()[2])
    return next((frame.lineno for frame in reversed(frames) if frame.filename == str(path)), None)


def _error(path: Path, line: int | None, error: BaseException) -> FunctionFileError:
    where = f"{path}, line {line}" if line is not None else str(path)
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    return FunctionFileError(f"{where}: {type(error).__name__}: {said}")
