"""The grammars that come with the package: JSON, arithmetic, a subset of SQL, expressions of Python."""

from __future__ import annotations

from pathlib import Path

from sgrt_grammars.constraint import ContextFree, GrammarDialect

# Beside the package in a checkout, inside it when installed.
_FOLDERS = (Path(__file__).parent.parent, Path(__file__).parent / "shipped")


def shipped_grammars() -> tuple[str, ...]:
    """The names that `shipped_grammar` knows, sorted."""
    return tuple(sorted(path.stem for folder in _FOLDERS for path in folder.glob("*.lark")))


def shipped_grammar(name: str) -> ContextFree:
    """A grammar of the package in Lark's notation, by the name of its file.

    Raises:
        ValueError: there is none of this name; the message names those there are.
    """
    names = shipped_grammars()
    if name not in names:
        raise ValueError(f"no grammar {name!r} comes with sgrt; there are {', '.join(names)}")
    paths = (folder / f"{name}.lark" for folder in _FOLDERS)
    text = next(path.read_text(encoding="utf-8") for path in paths if path.exists())
    return ContextFree(text=text, dialect=GrammarDialect.LARK)
