"""The formats of the specification as regular languages of strings.

`date` and `date-time` follow the calendar (years 0001 to 9999); leap seconds are written in UTC.
Host names have no `--` in the third and fourth place of a label: whether such a label is a valid A-label is
not a regular question. Such formats are known from two sides: what is written has the format for certain, and what is
written where the format is excluded (by `not`, or by another branch of `oneOf`) lacks it for certain.
Names outside the specification are annotations, as the specification says.
"""

from __future__ import annotations

from functools import cache

from sgrt_grammars.constraint import RegexDialect
from sgrt_grammars.errors import UnsupportedConstraint
from sgrt_grammars.regex.compile import pattern_language
from sgrt_grammars.regex.language import ANY_TEXT, Between, Language
from sgrt_grammars.schema.regex_format import patterns, possible_patterns

_LEAP_YEAR = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_YEAR = r"(?!0000)[0-9]{4}"
_LONG_MONTH = r"(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
_SHORT_MONTH = r"(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
_FEBRUARY = r"02-(?:0[1-9]|1[0-9]|2[0-8])"
_DATE = rf"(?:{_YEAR}-(?:{_LONG_MONTH}|{_SHORT_MONTH}|{_FEBRUARY})|{_LEAP_YEAR}-02-29)"
_HOUR = r"(?:[01][0-9]|2[0-3])"
_FRACTION = r"(?:\.[0-9]+)?"
_OFFSET = rf"(?:[Zz]|[+-]{_HOUR}:[0-5][0-9])"
_TIME = rf"(?:{_HOUR}:[0-5][0-9]:[0-5][0-9]{_FRACTION}{_OFFSET}|23:59:60{_FRACTION}(?:[Zz]|[+-]00:00))"

_DURATION_TIME = r"T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DURATION_DATE = r"(?:[0-9]+D|[0-9]+M(?:[0-9]+D)?|[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?)"
_DURATION = rf"P(?:{_DURATION_DATE}(?:{_DURATION_TIME})?|{_DURATION_TIME}|[0-9]+W)"

_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"{_BYTE}(?:\.{_BYTE}){{3}}"
_GROUP = r"[0-9A-Fa-f]{1,4}"
_LAST = rf"(?:{_GROUP}:{_GROUP}|{_IPV4})"
_IPV6 = (
    "(?:"
    + "|".join(
        [
            rf"(?:{_GROUP}:){{6}}{_LAST}",
            rf"::(?:{_GROUP}:){{5}}{_LAST}",
            rf"(?:{_GROUP})?::(?:{_GROUP}:){{4}}{_LAST}",
            rf"(?:(?:{_GROUP}:){{0,1}}{_GROUP})?::(?:{_GROUP}:){{3}}{_LAST}",
            rf"(?:(?:{_GROUP}:){{0,2}}{_GROUP})?::(?:{_GROUP}:){{2}}{_LAST}",
            rf"(?:(?:{_GROUP}:){{0,3}}{_GROUP})?::{_GROUP}:{_LAST}",
            rf"(?:(?:{_GROUP}:){{0,4}}{_GROUP})?::{_LAST}",
            rf"(?:(?:{_GROUP}:){{0,5}}{_GROUP})?::{_GROUP}",
            rf"(?:(?:{_GROUP}:){{0,6}}{_GROUP})?::",
        ]
    )
    + ")"
)  # RFC 3986, IPv6address

_ALNUM, _LDH = "[A-Za-z0-9]", "[A-Za-z0-9-]"
_LABEL = (
    rf"{_ALNUM}(?:{_ALNUM}|{_LDH}{{1,2}}{_ALNUM}"
    rf"|{_LDH}(?:{_ALNUM}{_LDH}|-{_ALNUM}){_LDH}{{0,58}}{_ALNUM})?"
)  # 1 to 63 characters, the third and fourth not both hyphens
_HOSTNAME = rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*"

_OUTER_LABEL = rf"{_ALNUM}(?:{_LDH}{{0,61}}{_ALNUM})?"

_ATEXT = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
_QUOTED = r'"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\[\x20-\x7e])*"'
_MAIL_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_MAIL_DOMAIN = rf"(?:{_MAIL_LABEL}(?:\.{_MAIL_LABEL})*|\[{_IPV4}\]|\[IPv6:{_IPV6}\])"
_EMAIL = rf"(?:{_ATEXT}+(?:\.{_ATEXT}+)*|{_QUOTED})@{_MAIL_DOMAIN}"
_WIDE = r"\u0080-\ud7ff\ue000-\U0010ffff"
_WIDE_ATEXT = rf"[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~{_WIDE}-]"
_WIDE_LABEL = rf"[A-Za-z0-9{_WIDE}](?:[A-Za-z0-9{_WIDE}-]*[A-Za-z0-9{_WIDE}])?"
_IDN_EMAIL = (
    rf"(?:{_WIDE_ATEXT}+(?:\.{_WIDE_ATEXT}+)*|{_QUOTED})"
    rf"@(?:{_WIDE_LABEL}(?:\.{_WIDE_LABEL})*|\[{_IPV4}\]|\[IPv6:{_IPV6}\])"
)

_UCS = (
    r"\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"
    + "".join(rf"\U000{plane:x}0000-\U000{plane:x}fffd" for plane in range(1, 14))
    + r"\U000e1000-\U000efffd"
)
_PRIVATE = r"\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"


def _uri_parts(extra: str, private: str) -> tuple[str, str]:
    """(URI, relative reference) of RFC 3986 with `extra` unreserved characters, as RFC 3987 adds them."""
    encoded = r"%[0-9A-Fa-f]{2}"
    plain = rf"A-Za-z0-9._~{extra}\-"
    sub = r"!$&'()*+,;="
    pchar = rf"(?:[{plain}{sub}:@]|{encoded})"
    segment_no_colon = rf"(?:[{plain}{sub}@]|{encoded})+"
    host = rf"(?:\[(?:{_IPV6}|v[0-9A-Fa-f]+\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\]|(?:[{plain}{sub}]|{encoded})*)"
    authority = rf"(?:(?:[{plain}{sub}:]|{encoded})*@)?{host}(?::[0-9]*)?"
    absolute_path = rf"/(?:{pchar}+(?:/{pchar}*)*)?"
    rest = rf"(?:\?(?:{pchar}|[/?{private}])*)?(?:#(?:{pchar}|[/?])*)?"
    with_authority = rf"//{authority}(?:/{pchar}*)*"
    uri = rf"[A-Za-z][A-Za-z0-9+.-]*:(?:{with_authority}|{absolute_path}|{pchar}+(?:/{pchar}*)*|){rest}"
    relative = rf"(?:{with_authority}|{absolute_path}|{segment_no_colon}(?:/{pchar}*)*|){rest}"
    return uri, relative


_URI, _RELATIVE = _uri_parts("", "")
_IRI, _IRI_RELATIVE = _uri_parts(_UCS, _PRIVATE)

_VARNAME = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*"
_VARSPEC = rf"{_VARNAME}(?::[1-9][0-9]{{0,3}}|\*)?"
_TEMPLATE_LITERAL = (
    rf"[\x21\x23\x24\x26\x28-\x3b\x3d\x3f-\x5b\x5d\x5f\x61-\x7a\x7e{_UCS}{_PRIVATE}]|%[0-9A-Fa-f]{{2}}"
)
_URI_TEMPLATE = rf"(?:{_TEMPLATE_LITERAL}|\{{[+#./;?&=,!@|]?{_VARSPEC}(?:,{_VARSPEC})*\}})*"

_POINTER = r"(?:/(?:[^~/]|~[01])*)*"

_PATTERNS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": rf"{_DATE}[Tt]{_TIME}",
    "duration": _DURATION,
    "email": _EMAIL,
    "idn-email": _IDN_EMAIL,
    "hostname": _HOSTNAME,
    "ipv4": _IPV4,
    "ip-address": _IPV4,
    "ipv6": _IPV6,
    "uri": _URI,
    "uri-reference": rf"(?:{_URI}|{_RELATIVE})",
    "iri": _IRI,
    "iri-reference": rf"(?:{_IRI}|{_IRI_RELATIVE})",
    "uuid": r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}",
    "uri-template": _URI_TEMPLATE,
    "json-pointer": rf"(?s:{_POINTER})",
    "relative-json-pointer": rf"(?s:(?:0|[1-9][0-9]*)(?:#|{_POINTER}))",
}

_OUTER_DATE = r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_OUTER_TIME = rf"{_HOUR}:[0-5][0-9]:(?:[0-5][0-9]|60){_FRACTION}{_OFFSET}"
_OUTER_PATTERNS = {
    "date": _OUTER_DATE,
    "time": _OUTER_TIME,
    "date-time": rf"{_OUTER_DATE}[Tt ]{_OUTER_TIME}",
    "email": r"(?s:.*@.*)",
    "idn-email": r"(?s:.*@.*)",
    "hostname": rf"(?:{_OUTER_LABEL}\.)*{_OUTER_LABEL}\.?",
}
"""What may have a format for some reader, where that is more than what surely has it."""

REFUSED_FORMATS = {
    "idn-hostname": "its rules (IDNA 2008) look at properties and contexts of characters",
}
ENFORCED_FORMATS = (*_PATTERNS, "regex")


def format_language(name: str, pointer: str) -> Language:
    """The strings of a format; any string when the specification does not name it."""
    if name in REFUSED_FORMATS:
        raise UnsupportedConstraint(
            f"format {name!r} cannot be enforced: {REFUSED_FORMATS[name]}",
            pointer=f"{pointer}/format",
            keyword="format",
            hint="remove it, or give a pattern",
        )
    return _language(name) if name in ENFORCED_FORMATS else ANY_TEXT


@cache
def _language(name: str) -> Language:
    if name == "regex":
        return Between(name, patterns(), possible_patterns())
    inner = _written(_PATTERNS[name])
    return Between(name, inner, _written(_OUTER_PATTERNS[name])) if name in _OUTER_PATTERNS else inner


def _written(pattern: str) -> Language:
    return pattern_language(pattern, RegexDialect.PYTHON, is_full=True, pointer="", keyword="format")
