"""The marks around chat turns, read off the model's own template by rendering sentinels.

A template renders whole conversations; a state grows by appending. The marks between two turns
are what stands between two sentinels of a rendered conversation. Before an assistant speaks, the marks
collected so far are compared with what the template renders for the whole conversation: a template
that rewrites earlier turns is refused there.
"""

from __future__ import annotations

from sgrt_frontend.backend import Backend
from sgrt_frontend.call import Message, Role
from sgrt_frontend.errors import InvalidRequest

History = tuple[Role, ...]


class TurnMarks:
    """The template tokens between turns, per history of roles; computed once and kept."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._gaps: dict[tuple[History, Role | None], tuple[int, ...]] = {}
        self._verified: set[History] = set()

    def before(self, history: History, role: Role) -> tuple[int, ...]:
        """The tokens between the end of the last turn's content (or the beginning) and a new turn's content.

        Raises:
            InvalidRequest: the model has no chat template, refuses these roles, or its template does not append.
        """
        short = _shortened(history)
        gap = self._gap(short, role)
        if role is Role.ASSISTANT:
            self._verify(short, gap)
        return gap

    def after(self, history: History) -> tuple[int, ...]:
        """The tokens that close the last turn when no turn follows."""
        return self._gap(_shortened(history), None)

    def _gap(self, history: History, role: Role | None) -> tuple[int, ...]:
        key = (history, role)
        if key not in self._gaps:
            self._gaps[key] = self._read_gap(history, role)
        return self._gaps[key]

    def _read_gap(self, history: History, role: Role | None) -> tuple[int, ...]:
        if role is None:
            tokens = self._render(history, open_assistant=False)
            return tokens[self._content_spans(tokens, history)[-1][1] :]
        if role is Role.ASSISTANT:
            tokens = self._render(history, open_assistant=True)
            start = self._content_spans(tokens, history)[-1][1] if history else 0
            return tokens[start:]
        # A system turn alone is refused by some templates, or moved into the first user turn.
        follow: History = (Role.USER,) if role is Role.SYSTEM else ()
        roles = (*history, role, *follow)
        tokens = self._render(roles, open_assistant=False)
        spans = self._content_spans(tokens, roles)
        index = len(history)
        return tokens[spans[index - 1][1] if index else 0 : spans[index][0]]

    def _render(self, roles: History, *, open_assistant: bool) -> tuple[int, ...]:
        messages = [Message(role=role, content=_sentinel(index)) for index, role in enumerate(roles)]
        return self._backend.render(messages, open_assistant=open_assistant)

    def _content_spans(self, tokens: tuple[int, ...], roles: History) -> list[tuple[int, int]]:
        spans: list[tuple[int, int]] = []
        start = 0
        for index, role in enumerate(roles):
            content = self._backend.encode(_sentinel(index))
            found = _find(tokens, content, start)
            if found is None:
                raise InvalidRequest(
                    f"the chat template of {self._backend.describe().model!r} does not keep the content of turn "
                    f"{index + 1} ({role.value}) as written and in order; append text instead of turns",
                    param="role",
                )
            start = found + len(content)
            spans.append((found, start))
        return spans

    def _verify(self, history: History, opening: tuple[int, ...]) -> None:
        """Refuse a template whose rendering of the whole conversation has other marks than those appended."""
        if history in self._verified:
            return
        rendered = self._render(history, open_assistant=True)
        position = 0
        for index, (start, end) in enumerate(self._content_spans(rendered, history)):
            appended = self._gap(_shortened(history[:index]), history[index])
            if not self._is_same(rendered[position:start], appended, history[index]):
                self._refuse(history, index)
            position = end
        if rendered[position:] != opening:
            self._refuse(history, len(history))
        self._verified.add(history)

    def _is_same(self, rendered: tuple[int, ...], appended: tuple[int, ...], role: Role) -> bool:
        """Whether marks agree. Before what the model says, a template may have blanks that the model writes itself."""
        if rendered == appended:
            return True
        if role is not Role.ASSISTANT or rendered[: len(appended)] != appended:
            return False
        return self._backend.decode(rendered[len(appended) :]).isspace()

    def _refuse(self, history: History, index: int) -> None:
        roles = ", ".join(role.value for role in history)
        raise InvalidRequest(
            f"the chat template of {self._backend.describe().model!r} is not append-only: with turns ({roles}) the marks "
            f"before turn {index + 1} are others than when that turn was appended, so a program that appends turns "
            "cannot follow it. Append text and `mark(...)` instead of turns",
            param="role",
        )


def _sentinel(index: int) -> str:
    # Digits: tokenizers join letters with a space before them ("[INST] " + text), digits with nothing.
    return f"80271{index:02d}59"


def _find(tokens: tuple[int, ...], content: tuple[int, ...], start: int) -> int | None:
    for position in range(start, len(tokens) - len(content) + 1):
        if tokens[position : position + len(content)] == content:
            return position
    return None


def _shortened(history: History) -> History:
    """The history without repeated middles, so that a long conversation needs no long renderings."""
    while len(history) > 8 and history[2:4] == history[4:6]:
        history = history[:2] + history[4:]
    return history
