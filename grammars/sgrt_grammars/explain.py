"""What a matcher allows now, in words."""

from __future__ import annotations

from sgrt_grammars.automaton.core import CoreCursor
from sgrt_grammars.automaton.node import FIRST_SPECIAL
from sgrt_grammars.errors import GrammarError
from sgrt_grammars.vocabulary import Vocabulary

_MAX_SHOWN = 80


def explain(cursor: CoreCursor, vocabulary: Vocabulary) -> str:
    """One sentence each: may the text end, what may come next, what must, and how it can be completed."""
    symbols = cursor.choices()
    sentences = []
    if cursor.is_accepting:
        sentences.append("the text may end here")
    members = [symbol for symbol in symbols if symbol < FIRST_SPECIAL]
    if members:
        sentences.append(f"next byte: {_ranges(members)}")
    names = {token: name for name, token in vocabulary.special_tokens.items()}
    specials = [symbol - FIRST_SPECIAL for symbol in symbols if symbol >= FIRST_SPECIAL]
    if specials:
        sentences.append("special tokens: " + ", ".join(names.get(t, f"token {t}") for t in specials))
    forced = bytes(symbol for symbol in cursor.forced() if symbol < FIRST_SPECIAL)
    if forced:
        sentences.append(f"forced: {_shown(forced)}")
    sentences.append(_completion(cursor, vocabulary))
    return "; ".join(sentences)


def _completion(cursor: CoreCursor, vocabulary: Vocabulary) -> str:
    try:
        witness = cursor.witness()
    except GrammarError as error:
        return str(error)
    text = b"".join(vocabulary.text(token) or b"<token %d>" % token for token in witness)
    return f"shortest completion known ({len(witness)} tokens): {_shown(text)}"


def _shown(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    return repr(text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "...")


def _ranges(members: list[int]) -> str:
    """Bytes as ranges of printable characters, others as hexadecimal."""
    ranges: list[tuple[int, int]] = []
    for byte in sorted(members):
        if ranges and byte == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], byte)
        else:
            ranges.append((byte, byte))
    return " ".join(_name(low) if low == high else f"{_name(low)}-{_name(high)}" for low, high in ranges)


def _name(byte: int) -> str:
    return chr(byte) if 0x21 <= byte < 0x7F else f"0x{byte:02x}"
