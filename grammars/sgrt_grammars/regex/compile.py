"""The two uses of a pattern: a whole text (Python's full match) and a search (a schema's `pattern`)."""

from __future__ import annotations

from functools import lru_cache

from sgrt_grammars.constraint import Regex, RegexDialect
from sgrt_grammars.errors import CompileLimitExceeded, InvalidConstraint, UnsupportedConstraint
from sgrt_grammars.expression import Expression
from sgrt_grammars.regex import assertions
from sgrt_grammars.regex.errors import PatternError, PatternRefused, PatternTooDeep
from sgrt_grammars.regex.language import Language
from sgrt_grammars.regex.parser import parse_pattern
from sgrt_grammars.regex.spelling import UTF8, spell


def regex_expression(regex: Regex) -> Expression:
    """The texts of a `Regex` constraint, in UTF-8."""
    is_full = regex.dialect is RegexDialect.PYTHON
    return spell(
        pattern_language(regex.pattern, regex.dialect, is_full=is_full, pointer="", keyword="regex"), UTF8
    )


def pattern_language(
    text: str, dialect: RegexDialect, *, is_full: bool, pointer: str, keyword: str
) -> Language:
    """The language of a pattern. Errors are the package's own and carry `pointer` and `keyword`."""
    try:
        return _language(text, dialect, is_full)
    except PatternError as error:
        raise InvalidConstraint(
            f"{keyword} {_shortened(text)} does not parse: {error}", pointer=pointer
        ) from error
    except PatternRefused as error:
        message = f"{_shortened(text)}: {error}"
        raise UnsupportedConstraint(message, pointer=pointer, keyword=keyword, hint=error.hint) from error
    except (PatternTooDeep, RecursionError) as error:
        limit = error.limit if isinstance(error, PatternTooDeep) else "depth"
        raise CompileLimitExceeded(f"{keyword} at {pointer or '/'}: {error}", limit=limit) from error


@lru_cache(maxsize=4096)
def _language(text: str, dialect: RegexDialect, is_full: bool) -> Language:
    pattern = parse_pattern(text, dialect)
    return assertions.full_match(pattern) if is_full else assertions.search(pattern)


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
