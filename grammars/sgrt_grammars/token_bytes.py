"""What the tokens of a vocabulary spell, in the two notations in which tokenizer files write bytes."""

from __future__ import annotations

import re

SPACE = "\u2581"  # SentencePiece's sign for a space
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _alphabet() -> dict[str, int]:
    """GPT-2's: each byte as one printable character, so that any byte string is a text."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {
        chr(0x100 + index): byte for index, byte in enumerate(others)
    }


_BYTES = _alphabet()


def byte_level_bytes(token: str) -> bytes:
    """The bytes a token of byte-level BPE spells; one with a character outside the alphabet is its own text."""
    try:
        return bytes([_BYTES[character] for character in token])
    except KeyError:
        return token.encode()


def piece_bytes(piece: str) -> bytes:
    """The bytes a SentencePiece piece spells: one byte for `<0xNN>`, otherwise its text with U+2581 as a space."""
    byte = _BYTE.fullmatch(piece)
    if byte is not None:
        return bytes([int(byte[1], 16)])
    return piece.replace(SPACE, " ").encode()
