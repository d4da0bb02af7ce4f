"""Doors: the few functions whose calls a test or an audit may watch, or answer in their place.

A door is called like the function it wraps. `answered_by` puts another function behind it for a while; every
module that imported the door then calls that one, without anything being patched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Door(Generic[P, R]):
    """A function that may be answered by another.

    Args:
        function: what is called unless somebody answers; stays reachable as `function`.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        self.function = function
        self._answer: Callable[..., Any] | None = None
        update_wrapper(self, function)

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        """What the function gives, or who answers for it."""
        answer = self.function if self._answer is None else self._answer
        return answer(*arguments, **named)

    @contextmanager
    def answered_by(self, answer: Callable[..., Any]) -> Iterator[None]:
        """Let `answer` be called with the door's arguments; what answered before is put back at the end."""
        before, self._answer = self._answer, answer
        try:
            yield
        finally:
            self._answer = before

    def __reduce__(self) -> str:
        return str(self.function.__qualname__)
