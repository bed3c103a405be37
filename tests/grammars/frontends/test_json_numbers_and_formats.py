"""Numbers between bounds, multiples, and the formats of strings."""

from __future__ import annotations

import json
import random
import re
import warnings
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgrt_grammars import GrammarCompiler, JsonSchema, Matcher, Vocabulary, allowed_tokens, empty_mask
from sgrt_grammars.regex.language import contains, outside
from sgrt_grammars.schema.formats import ENFORCED_FORMATS, format_language
from sgrt_grammars.schema.json_text import quoted, string
from sgrt_grammars.schema.number_text import number
from sgrt_grammars.schema.numbers import (
    ALL_NUMBERS,
    INTEGERS,
    NumberRange,
    NumberSet,
    complement_numbers,
    intersect_numbers,
    unite_numbers,
)
from tests.grammars.frontends.expression_oracle import Oracle

END = 256
BYTES = Vocabulary([*(bytes([byte]) for byte in range(256)), None], [END])

decimals = st.decimals(-120, 120, places=2).map(Fraction)
steps = st.sampled_from([None, Fraction(1), Fraction(1, 4), Fraction(3), Fraction(1, 100), Fraction(7, 10)])
ranges = st.builds(
    NumberRange,
    low=st.none() | decimals,
    is_low_open=st.booleans(),
    high=st.none() | decimals,
    is_high_open=st.booleans(),
    step=steps,
)
sets = st.lists(ranges.filter(lambda one: not one.is_empty), max_size=2).map(tuple)


def _belongs(value: Fraction, numbers: NumberSet) -> bool:
    return any(value in one for one in numbers)


@given(one=sets, other=sets, value=decimals)
def test_sets_of_numbers_are_a_boolean_algebra(one: NumberSet, other: NumberSet, value: Fraction) -> None:
    both, either = intersect_numbers(one, other), unite_numbers(one, other)
    assert _belongs(value, both) == (_belongs(value, one) and _belongs(value, other))
    assert _belongs(value, either) == (_belongs(value, one) or _belongs(value, other))
    assert _belongs(value, complement_numbers(one)) != _belongs(value, one)


texts = st.one_of(
    st.decimals(-130, 130, places=3).map(str),
    st.integers(-130, 130).map(str),
    st.floats(-130, 130).map(repr),
    st.from_regex(r"\A-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,3})?\Z"),
)


@settings(max_examples=300, deadline=None)
@given(one=ranges.filter(lambda one: not one.is_empty), written=st.lists(texts, min_size=1, max_size=6))
def test_a_decimal_is_accepted_exactly_when_it_belongs(one: NumberRange, written: list[str]) -> None:
    oracle = Oracle(number((one,), is_canonical=False))
    for text in written:
        expected = Fraction(text) in one
        if "e" in text:
            assert not oracle.accepts(text.encode()) or expected, (one, text)
            if one.step is None and one.value is None:
                assert oracle.accepts(text.encode()) is expected, (one, text)
        elif one.value is None:
            assert oracle.accepts(text.encode()) is expected, (one, text)


@settings(max_examples=100, deadline=None)
@given(one=sets, value=decimals)
def test_complements_are_written_exactly(one: NumberSet, value: Fraction) -> None:
    text = json.dumps(float(value))
    rest = complement_numbers(one)
    if any(part.value is not None for part in rest) or Fraction(text) != value:
        return
    assert Oracle(number(rest, is_canonical=False)).accepts(text.encode()) is _belongs(value, rest)


@pytest.mark.parametrize(
    ("one", "accepted", "refused"),
    [
        (NumberRange(low=Fraction(0), is_low_open=True, high=Fraction(2)), ["0.1", "0.001", "1e-3", "2", "2.0", "1.99e0"],
         ["0", "0.0", "-0.1", "2.0001", "3", "2e1", "0e5"]),
        (NumberRange(low=Fraction("1.5"), high=Fraction("2.25")), ["1.5", "2", "2.25", "2.125", "1.50", "2.2e+00"],
         ["1", "1.4999", "2.26", "3", "1,5", "01.5"]),
        (NumberRange(low=Fraction(-5), step=Fraction(1)), ["-5", "-0", "0", "250", "7.0"], ["-6", "-", "-05", "1.5"]),
        (NumberRange(high=Fraction(-1)), ["-1", "-1e300", "-17.5", "-2e+05"], ["0", "-0.5", "1", "-9e-01"]),
        (NumberRange(step=Fraction(1, 100)), ["0.25", "-3.1", "7", "7.000"], ["0.255", "1e2"]),
        (NumberRange(low=Fraction(0), step=Fraction(5), high=Fraction(20)), ["0", "5", "20", "10.0"], ["3", "25", "7"]),
        (NumberRange.point(Fraction(1)), ["1", "1.0"], ["01", "1.5", "-1", "10"]),
        (NumberRange.point(Fraction("1e300")), ["1e+300"], ["1e+299"]),
        (NumberRange(avoided=frozenset({Fraction(2)})), ["1", "0.5", "3.0"], ["2", "-4.0", "0"]),
    ],
)  # fmt: skip
def test_bounds_are_exact(one: NumberRange, accepted: list[str], refused: list[str]) -> None:
    oracle = Oracle(number((one,), is_canonical=False))
    assert [text for text in accepted if not oracle.accepts(text.encode())] == []
    assert [text for text in refused if oracle.accepts(text.encode())] == []


@pytest.mark.parametrize(
    ("numbers", "accepted", "refused"),
    [
        (INTEGERS, ["0", "18", "-7", "120"], ["-0", "18.0", "1e2", "0e0", "-0.0e+0", "007", "", "-"]),
        ((NumberRange(low=Fraction(-5), step=Fraction(1)),), ["-5", "0", "250"], ["-6", "-0", "7.0", "7."]),
        ((NumberRange(high=Fraction(0), step=Fraction(1)),), ["0", "-12"], ["-0", "1", "-1.0"]),
        ((NumberRange(step=Fraction(5), high=Fraction(20)),), ["0", "20", "-15"], ["20.0", "3", "-0"]),
        ((NumberRange(step=Fraction(1), avoided=frozenset({Fraction(2)})),), ["1", "-3"], ["1.0", "2"]),
        ((NumberRange.point(Fraction(1)),), ["1"], ["1.0", "1e0"]),
        ((NumberRange.point(Fraction(0)),), ["0"], ["-0", "0.0"]),
        (ALL_NUMBERS, ["0", "12.50", "18.0", "-0.5", "1e+22", "1e-05", "2.5e300"], ["1E5", "12e3", "0e5", "1e999"]),
        ((NumberRange(low=Fraction(0)),), ["0", "12.50", "1e22"], ["-1", "1E5", "12e3"]),
        ((NumberRange(step=Fraction(1, 4)),), ["0.25", "1.50", "7.0"], ["0.3", "1e2"]),
        ((NumberRange.point(Fraction("0.00001")),), ["0.00001", "1e-05"], ["1e-5", "1.0e-05"]),
    ],
)  # fmt: skip
def test_the_canonical_spelling_is_one_that_every_reader_takes(
    numbers: NumberSet, accepted: list[str], refused: list[str]
) -> None:
    oracle = Oracle(number(numbers, is_canonical=True))
    assert [text for text in accepted if not oracle.accepts(text.encode())] == []
    assert [text for text in refused if oracle.accepts(text.encode())] == []


@settings(max_examples=100, deadline=None)
@given(one=ranges.filter(lambda one: not one.is_empty), value=st.integers(-50, 50))
def test_an_integer_has_its_canonical_spelling_wherever_it_belongs(one: NumberRange, value: int) -> None:
    oracle = Oracle(number((one,), is_canonical=True))
    assert oracle.accepts(str(value).encode()) is (Fraction(value) in one)


FORMATS: dict[str, tuple[list[str], list[str]]] = {
    "date": (["2024-02-29", "2000-02-29", "1999-12-31"], ["2023-02-29", "1900-02-29", "2024-04-31", "2024-1-01", "0000-01-01"]),
    "time": (["10:00:00Z", "23:59:59.123+01:00", "23:59:60Z"], ["24:00:00Z", "10:00:00", "10:60:00Z", "22:59:60Z"]),
    "date-time": (["2024-02-28T10:00:00.123+01:00", "1963-06-19t08:30:06z"], ["2024-02-30T10:00:00Z", "2024-02-28 10:00:00Z"]),
    "duration": (["P4DT12H30M5S", "P1Y2M", "PT1H", "P2W"], ["P", "PT", "P1D2H", "P2W1D", "P1YT"]),
    "email": (["joe.bloggs@example.com", '"joe b"@a.co', "a@[127.0.0.1]"], ["joe", ".a@b.co", "a..b@c.co", "a@b=c"]),
    "idn-email": (["실례@실례.테스트", "a@b.co"], ["2962"]),
    "hostname": (["www.example.com", "a-b.c", "1host"], ["-a", "a-", "a..b", "a_b", "xn--x", "a" * 64, "", "a."]),
    "ipv4": (["192.168.0.1", "0.0.0.0"], ["256.0.0.1", "1.2.3", "01.2.3.4", "1.2.3.4.5"]),
    "ipv6": (["::1", "::", "1:2:3:4:5:6:7:8", "::ffff:192.168.0.1", "fe80::a"], ["12345::", "1::2::3", "1:2:3:4:5:6:7", "::1%eth0"]),
    "uri": (["https://a.b/c?d#e", "mailto:a@b.c", "urn:x:y", "http://[::1]:80/"], ["//a/b", "a b:c", "http:// x", "/path"]),
    "uri-reference": (["/path", "#frag", "a/b?c", "http://a"], ["\\\\server\\file", "a b"]),
    "iri": (["http://ƒøø.ßår/?∂éœ=πîx"], ["/abc", "http://a b"]),
    "iri-reference": (["/âππ", "#ƒ"], ["\\a"]),
    "uuid": (["2EB8AA08-aa98-11ea-b4aa-73b441d16380"], ["2eb8aa08aa9811eab4aa73b441d16380", "2eb8aa08-aa98-11ea-b4aa-73b441d1638"]),
    "uri-template": (["http://a/{term:1}/{+x,y*}", ""], ["http://a/{term", "{a b}", "}"]),
    "json-pointer": (["/foo/~0~1", "", "/"], ["foo", "/~2", "/~"]),
    "relative-json-pointer": (["0", "1/foo", "2#"], ["/foo", "01", "-1", "1##"]),
    "ip-address": (["1.2.3.4"], ["1.2.3"]),
    "regex": (["([abc])+\\s+$", "", "a{2,10}?|[^^-]", "(?:a(b(c)))*", "[à-ÿ\\x00-\\x1f]", "(?<=a.)b(?!c+)", "[\\u4e00-\\u9fa5-]"],
              ["^(abc]", "*", "a**", "[", "\\", "[b-a]", "a{3,2}", "^*", "\\Z", "[]", "(?<=a*)b", "(?P<n>a)", "x{"]),
}  # fmt: skip


@pytest.mark.parametrize("name", ENFORCED_FORMATS)
def test_a_format_is_its_grammar(name: str) -> None:
    accepted, refused = FORMATS[name]
    language = format_language(name, "")
    assert [text for text in accepted if not contains(language, text)] == []
    assert [text for text in refused if contains(language, text)] == []


def test_dates_are_those_of_the_calendar() -> None:
    language = format_language("date", "")
    lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    for year in (1600, 1900, 2000, 2023, 2024, 2100):
        is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        for month, length in enumerate(lengths, 1):
            last = length + (month == 2 and is_leap)
            for day in (0, 1, 28, 29, 30, 31, 32):
                assert contains(language, f"{year}-{month:02d}-{day:02d}") is (1 <= day <= last)


def _reads(text: str) -> bool:
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        try:
            re.compile(text)
        except re.error:
            return False
    return True


PATTERN_CHARACTERS = list(b"()[]{}|*+?\\^$-,.=!<:0159abdwux")


def test_what_is_generated_as_a_regex_compiles_and_what_is_generated_as_none_does_not() -> None:
    compiler = GrammarCompiler(BYTES)
    chance = random.Random(0)
    for schema, is_pattern in (({"format": "regex"}, True), ({"not": {"format": "regex"}}, False)):
        start = compiler.compile(JsonSchema(text=json.dumps({"type": "string", **schema}))).matcher()
        for _ in range(150):
            text = json.loads(walked(start.fork(), chance, PATTERN_CHARACTERS))
            assert _reads(text) is is_pattern, text


def walked(matcher: Matcher, chance: random.Random, liked: list[int]) -> bytes:
    """A random generation of up to 30 bytes that prefers some of them."""
    row, tokens = empty_mask(BYTES.size), list[int]()
    while True:
        matcher.mask(row, 30 - len(tokens))
        allowed = allowed_tokens(row)
        token = chance.choice([one for one in allowed if one in liked] or allowed)
        if token == END:
            return bytes(tokens)
        assert matcher.advance(token, 30 - len(tokens))
        tokens.append(token)


UNDECIDED = {
    "hostname": "xn--x", "date": "0000-01-01", "time": "22:59:60Z", "date-time": "2024-02-28 10:00:00Z", "email": "@",
    "regex": "(a)\\1",
}  # fmt: skip


@pytest.mark.parametrize("name", UNDECIDED)
def test_a_text_that_may_have_a_format_is_neither_taken_for_one_that_has_it_nor_for_one_that_lacks_it(
    name: str,
) -> None:
    language = format_language(name, "")
    for text in (UNDECIDED[name], *FORMATS[name][0]):
        assert not contains(outside(language), text)
        assert contains(language, text, possibly=True)
    assert not contains(language, UNDECIDED[name])
    oracle = Oracle(string(outside(language)))
    assert not any(oracle.accepts(quoted(text)) for text in (UNDECIDED[name], *FORMATS[name][0]))
    assert oracle.accepts(b'"*"')
