"""Doors: the few functions whose calls a test or an audit may observe or replace.

A door is called like the function it wraps. `answered_by` replaces that function temporarily, for every
module that imported the door, without patching.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Door(Generic[P, R]):
    """A function that can be replaced temporarily.

    Args:
        function: called unless replaced; always available as `function`.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        self.function = function
        self._answer: Callable[..., Any] | None = None
        update_wrapper(self, function)

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        """Call the function, or its replacement."""
        answer = self.function if self._answer is None else self._answer
        return answer(*arguments, **named)

    @contextmanager
    def answered_by(self, answer: Callable[..., Any]) -> Iterator[None]:
        """Call `answer` with the door's arguments instead; the previous function is restored at the end."""
        before, self._answer = self._answer, answer
        try:
            yield
        finally:
            self._answer = before

    def __reduce__(self) -> str:
        return str(self.function.__qualname__)
