"""GPT-2's alphabet: each byte written as one printable character, so that any byte string is a text."""

from __future__ import annotations


def _alphabet() -> dict[str, int]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {
        chr(0x100 + index): byte for index, byte in enumerate(others)
    }


_BYTES = _alphabet()


def bytes_of(spelled: str) -> bytes:
    """The bytes a token spells; a token with a character outside the alphabet is its own text."""
    try:
        return bytes([_BYTES[character] for character in spelled])
    except KeyError:
        return spelled.encode()
