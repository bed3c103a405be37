"""Forced text as tokens: what the tokenizer itself would make of it."""

from __future__ import annotations

from collections.abc import Sequence

from sgrt_grammars.automaton.node import FIRST_SPECIAL
from sgrt_grammars.vocabulary import Vocabulary


def canonical_tokens(symbols: Sequence[int], vocabulary: Vocabulary, *, is_whole: bool) -> tuple[int, ...]:
    """Tokens that spell `symbols`; unless `is_whole`, without the last, which may merge with what follows."""
    tokens: list[int] = []
    run = bytearray()
    for symbol in symbols:
        if symbol < FIRST_SPECIAL:
            run.append(symbol)
            continue
        tokens += _spelled(bytes(run), vocabulary)
        run.clear()
        tokens.append(symbol - FIRST_SPECIAL)
    if run:
        spelled = _spelled(_whole_characters(bytes(run)), vocabulary)
        tokens += spelled if is_whole else spelled[:-1]
    return tuple(tokens)


def _whole_characters(data: bytes) -> bytes:
    """`data` without a last character that is not complete."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        width = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
        return data[:-back] if width > back else data
    return data


def _spelled(data: bytes, vocabulary: Vocabulary) -> list[int]:
    if not data:
        return []
    if vocabulary.encode is None:
        return _longest_matches(data, vocabulary)
    try:
        tokens = list(vocabulary.encode(data.decode()))
    except UnicodeDecodeError:
        return _longest_matches(data, vocabulary)
    spelled = b"".join(vocabulary.text(token) or b"" for token in tokens)
    return tokens if spelled == data else _longest_matches(data, vocabulary)


def _longest_matches(data: bytes, vocabulary: Vocabulary) -> list[int]:
    """Greedy spelling; it stops where no token matches."""
    trie = vocabulary.trie
    tokens: list[int] = []
    position = 0
    while position < len(data):
        found = trie.longest_match(data, position)
        if found is None:
            break
        length, token = found
        tokens.append(token)
        position += length
    return tokens
