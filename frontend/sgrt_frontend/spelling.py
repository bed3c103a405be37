"""How texts can be spelled in tokens: the vocabulary's bytes, indexed for look-up from both ends."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence


class Spelling:
    """An index over token bytes; built once per backend and shared.

    Special tokens spell nothing and are passed as `b""`.
    """

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        self._bytes = tuple(token_bytes)
        self._ids: dict[bytes, list[int]] = {}
        for token_id, data in enumerate(self._bytes):
            if data:
                self._ids.setdefault(data, []).append(token_id)
        self._sorted = sorted(self._ids)
        self.longest = max(map(len, self._sorted), default=0)
        """Bytes of the longest token."""

    def __len__(self) -> int:
        return len(self._bytes)

    def bytes_of(self, token_ids: Iterable[int]) -> bytes:
        """What tokens spell, one after the other."""
        return b"".join(self._bytes[token_id] for token_id in token_ids)

    def beginnings(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Every token that is a beginning of `data`, with the number of bytes it takes."""
        for size in range(1, min(len(data), self.longest) + 1):
            for token_id in self._ids.get(data[:size], ()):
                yield token_id, size

    def longer(self, data: bytes) -> Iterator[int]:
        """Every token that begins with `data` and goes on."""
        for position in range(bisect_left(self._sorted, data), len(self._sorted)):
            spelled = self._sorted[position]
            if not spelled.startswith(data):
                return
            if len(spelled) > len(data):
                yield from self._ids[spelled]
