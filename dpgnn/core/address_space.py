"""The limit on a process's memory (`ulimit -v`): refused if too small, named if it is reached."""

from __future__ import annotations

import resource

from dpgnn.core.checks import fail

# memory of a stage before it reads data; with less, numerical libraries wait forever
LEAST_BYTES = 1 << 30
REMEDY = "raise it, as by `ulimit -v unlimited`"
NAME = "memory of the process (ulimit -v)"
# messages of dynamic linkers and compilers
SAID = ("cannot allocate memory", "failed to map segment", "std::bad_alloc", "unable to allocate")


def check_limit() -> None:
    """Refuse a limit below what any stage needs.

    Raises:
        ValueError: names limit and remedy.
    """
    limit = _limit()
    if limit is not None and limit < LEAST_BYTES:
        fail(NAME, f"be >= {LEAST_BYTES / 1e9:.1f} GB", f"{limit / 1e9:.1f} GB", REMEDY)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error or its cause is a lack of memory."""
    text = str(error).lower()
    if isinstance(error, MemoryError) or any(said in text for said in SAID):
        return True
    cause = error.__cause__ or error.__context__
    return cause is not None and is_out_of_memory(cause)


def explained(error: BaseException) -> str:
    """One line about a lack of memory."""
    limit = _limit()
    first = str(error).strip().split("\n")[0][:120] or type(error).__name__
    if limit is None:
        return (
            f"memory must suffice, got none when more was asked for ({first}); close other programs"
        )
    return f"{NAME} must suffice, got {limit / 1e9:.1f} GB ({first}); {REMEDY}"


def _limit() -> int | None:
    found = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if found == resource.RLIM_INFINITY else found
