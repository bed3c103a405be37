"""GBNF, EBNF and Lark: notation, left recursion, empty rules, ambiguity and errors."""

from __future__ import annotations

import itertools
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Lark
from lark.exceptions import LarkError

from sgrt_grammars.constraint import ContextFree, GrammarDialect
from sgrt_grammars.errors import CompileLimitExceeded, GrammarError, InvalidConstraint, UnsupportedConstraint
from sgrt_grammars.notation.bnf import parse_bnf
from sgrt_grammars.notation.lark_dialect import parse_lark
from sgrt_grammars.notation.write import grammar_expression
from sgrt_grammars.shipped import shipped_grammar, shipped_grammars
from tests.grammars.frontends.expression_oracle import Oracle


def _oracle(text: str, dialect: GrammarDialect = GrammarDialect.GBNF, start: str = "") -> Oracle:
    constraint = ContextFree(text=text, dialect=dialect, start=start)
    parse = parse_lark if dialect is GrammarDialect.LARK else parse_bnf
    return Oracle(grammar_expression(parse(constraint)))


def _texts(alphabet: str, length: int) -> list[str]:
    return [
        "".join(letters) for size in range(length + 1) for letters in itertools.product(alphabet, repeat=size)
    ]


def _language(text: str, alphabet: str, length: int) -> set[str]:
    oracle = _oracle(text)
    return {one for one in _texts(alphabet, length) if oracle.accepts(one.encode())}


@pytest.mark.parametrize(
    ("text", "accepted", "refused"),
    [
        ('root ::= ws "x" ws\nws ::= (sp | nl)*\nsp ::= [ \\t]*\nnl ::= "\\r"? "\\n"\n', ["x", " \n x\n", "\t\tx"], ["xx", ""]),
        ('root ::= "\\"" ch{2,3} "\\""\nch ::= [^"\\\\\\x00-\\x1F] | "\\\\" ["\\\\nt]', ['"ab"', '"a\\""'], ['"a"', '"abcd"']),
        ("root ::= [a\\-z]{1,3} [0-2]", ["a-1", "z0"], ["b1", "a3", "1"]),
        ('root ::= ([ぁ-ゖ] | [é-í] | "—")+', ["あえ", "é—í"], ["a", "î", ""]),
        ('# a comment\nroot ::= item ("," item)* # another\nitem ::=\n  "a" |\n  "b"\n', ["a", "a,b,a"], ["", "a,", "ab"]),
        ('root ::= "a"{2} "b"{1,} "c"{0,2} .', ["aab!", "aabbcc."], ["ab!", "aab", "aabccc!"]),
        ('root ::= "" | "x" root', ["", "xx"], ["y"]),
        ('root ::= "\\u00e9" "\\U0001F389"', ["é🎉"], ["e"]),
    ],
)  # fmt: skip
def test_gbnf_means_what_it_says(text: str, accepted: list[str], refused: list[str]) -> None:
    oracle = _oracle(text)
    assert [one for one in accepted if not oracle.accepts(one.encode())] == []
    assert [one for one in refused if oracle.accepts(one.encode())] == []


@pytest.mark.parametrize(
    ("recursive", "plain", "alphabet"),
    [
        ('root ::= root "+" "x" | "x"', 'root ::= "x" ("+" "x")*', "x+"),
        ('root ::= a "c" | ""\na ::= root "b" | a "d"? | "e"', 'root ::= ("e" "d"* "c" | "b" "d"* "c") ("b" "d"* "c")* | ""', "bcde"),
        ('root ::= root root | "a" | ""', 'root ::= "a"*', "ab"),
        ('root ::= a\na ::= b | a "x"\nb ::= a | "y" | b "z"', 'root ::= "y" ("x" | "z")*', "xyz"),
        ('root ::= opt root "b" | "a"\nopt ::= "o"?', 'root ::= r\nr ::= "o" r "b" | "a" "b"* | "o" r "b"', "oab"),
    ],
)  # fmt: skip
def test_left_recursion_and_empty_rules_change_no_language(recursive: str, plain: str, alphabet: str) -> None:
    length = 5
    found = _language(recursive, alphabet, length)
    if "opt" in recursive:  # not regular: o^n a b^m with n <= m
        expected = {
            f"{'o' * n}a{'b' * m}" for n in range(length) for m in range(n, length) if n + m + 1 <= length
        }
    else:
        expected = _language(plain, alphabet, length)
    assert found == expected


def _bodies(names: list[str]) -> st.SearchStrategy[str]:
    atoms = st.sampled_from(['"a"', '"b"', '""', *names])
    return st.recursive(
        atoms,
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda pair: f"{pair[0]} {pair[1]}"),
            st.tuples(inner, inner).map(lambda pair: f"({pair[0]} | {pair[1]})"),
            st.tuples(inner, st.sampled_from("*+?")).map(lambda pair: f"({pair[0]}){pair[1]}"),
        ),
        max_leaves=4,
    )


def _derived(rules: dict[str, str], length: int) -> set[str]:
    """The language up to a length, as the least fixed point over sets of texts."""
    known: dict[str, set[str]] = {name: set() for name in rules}
    while True:
        grown = {name: _Texts(known, length).of(body) for name, body in rules.items()}
        if grown == known:
            return known["root"]
        known = grown


class _Texts:
    """Reads a body of the random grammars as operations on sets of texts."""

    def __init__(self, known: dict[str, set[str]], length: int) -> None:
        self._known, self._length = known, length

    def of(self, body: str) -> set[str]:
        self._tokens = body.replace("(", " ( ").replace(")", " ) ").replace("|", " | ").split()
        for sign in "*+?":
            self._tokens = [part for token in self._tokens for part in self._split(token, sign)]
        self._tokens.reverse()
        return self._choice()

    @staticmethod
    def _split(token: str, sign: str) -> list[str]:
        return [token[0], *token[1:].split()] if token.startswith(sign) and len(token) > 1 else [token]

    def _choice(self) -> set[str]:
        found = self._row()
        while self._tokens and self._tokens[-1] == "|":
            self._tokens.pop()
            found = found | self._row()
        return found

    def _row(self) -> set[str]:
        found = {""}
        while self._tokens and self._tokens[-1] not in ("|", ")"):
            found = self._joined(found, self._atom())
        return found

    def _joined(self, one: set[str], other: set[str]) -> set[str]:
        return {left + right for left in one for right in other if len(left + right) <= self._length}

    def _atom(self) -> set[str]:
        token = self._tokens.pop()
        if token == "(":
            found = self._choice()
            self._tokens.pop()
        else:
            found = {token.strip('"')} if token.startswith('"') else self._known[token]
        while self._tokens and self._tokens[-1] in ("*", "+", "?"):
            found = self._repeated(found, self._tokens.pop())
        return found

    def _repeated(self, once: set[str], sign: str) -> set[str]:
        if sign == "?":
            return once | {""}
        found = {""} if sign == "*" else set(once)
        while True:
            grown = found | self._joined(found, once)
            if grown == found:
                return found
            found = grown


@settings(max_examples=120, deadline=None)
@given(root=_bodies(["p", "q", "root"]), p=_bodies(["p", "q", "root"]), q=_bodies(["p", "q"]))
def test_random_grammars_derive_what_a_fixed_point_says(root: str, p: str, q: str) -> None:
    rules = {"root": root, "p": p, "q": q}
    oracle = _oracle("\n".join(f"{name} ::= {body}" for name, body in rules.items()))
    expected = _derived(rules, 4)
    for text in _texts("ab", 4):
        assert oracle.accepts(text.encode()) is (text in expected), (rules, text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", InvalidConstraint),
        ("# nothing\n", InvalidConstraint),
        ('answer ::= "yes"', InvalidConstraint),
        ("root ::= missing", InvalidConstraint),
        ('root ::= "a', InvalidConstraint),
        ('root ::= ("a"', InvalidConstraint),
        ("root ::= [z-a]", InvalidConstraint),
        ('root ::= "a"\nroot ::= "b"', InvalidConstraint),
        ('root ::= "a"{3,1}', InvalidConstraint),
        ("root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000, CompileLimitExceeded),
        ("root ::= <think>", UnsupportedConstraint),
    ],
)
def test_what_is_malformed_or_too_deep_is_a_typed_error(text: str, error: type[GrammarError]) -> None:
    with pytest.raises(error):
        _oracle(text)


def test_a_macro_of_ebnf_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedConstraint, match="TagDispatch"):
        _oracle('root ::= TagDispatch(("a", b))', GrammarDialect.EBNF)


def test_a_chain_of_thousands_of_rules_is_no_trouble() -> None:
    links = "\n".join(f"r{index} ::= r{index + 1}" for index in range(3_000))
    assert _oracle(f'root ::= r0\n{links}\nr3000 ::= "z"').accepts(b"z")


LARK_GRAMMARS = [
    'start: "[" [item ("," item)*] "]"\nitem: STR\nSTR: "\\"" /[a-z]*/ "\\""',
    'start: "let" NAME "=" NUM\nNAME: /[a-z]+/\nNUM: /[0-9]+/\n%ignore " "',
    'start: (A | B)* C?\nA: "a"\nB.2: /b+/i\nC: "c".."e"',
    'start: sum\n?sum: sum "+" prod | prod\n?prod: prod "*" atom | atom\n?atom: "x" | "(" sum ")"',
    'start: _list{item}\n_list{x}: x ("," x)*\nitem: "a" ~ 1..2',
    '%import common.INT\nstart: INT ("-" INT)+',
]


@pytest.mark.parametrize("text", LARK_GRAMMARS)
def test_lark_grammars_accept_what_lark_parses(text: str) -> None:
    parser = Lark(text, parser="earley", lexer="dynamic_complete")
    oracle = _oracle(text, GrammarDialect.LARK)
    alphabet = (
        'a"[,]' if "STR" in text else "let a=1" if "let" in text else "abBce" if "C:" in text else "x+*()"
    )
    samples = [
        *_texts("".join(sorted(set(alphabet))), 4),
        "let a=1",
        " let  ab = 23",
        "leta",
        '["a","b"]',
        "a,aa",
        "1-22-3",
    ]
    for sample in samples:
        assert oracle.accepts(sample.encode()) is _parses(parser, sample), sample


def test_look_around_sees_a_terminals_own_text() -> None:
    oracle = _oracle('start: NAME ("." NAME)*\nNAME: /(?!if\\b)[a-z]+\\b/', GrammarDialect.LARK)
    assert [text for text in ("iff.a", "i", "if.a", "a.if") if oracle.accepts(text.encode())] == [
        "iff.a",
        "i",
    ]


def _parses(parser: Lark, text: str) -> bool:
    try:
        parser.parse(text)
    except LarkError:
        return False
    return True


def test_lazy_terminals_end_as_soon_as_they_can() -> None:
    oracle = _oracle('start: COMMENT "x"\nCOMMENT: "/*" /(.|\\n)*?/ "*/"', GrammarDialect.LARK)
    assert oracle.accepts(b"/* a */x")
    assert not oracle.accepts(b"/* a */ b */x")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("start: (", InvalidConstraint),
        ("begin: \"a\"", InvalidConstraint),
        ("start: missing", InvalidConstraint),
        ("start: A\nA: /(a)\\1/", UnsupportedConstraint),
        ('start: "a" B\nB: /(?<=a)b|c/', UnsupportedConstraint),
        ('start: A "b"\nA: /a(?=b)/', UnsupportedConstraint),
        ("%declare X\nstart: X", UnsupportedConstraint),
    ],
)  # fmt: skip
def test_faults_of_lark_grammars_are_typed_errors(text: str, error: type[GrammarError]) -> None:
    with pytest.raises(error):
        _oracle(text, GrammarDialect.LARK)


FILES: dict[str, tuple[list[str], list[str]]] = {
    "json": (['{"a": [1, 2.5e3, null]}', "[]", ' "x\\u00e9" ', "-0.5"], ["{a:1}", "[1,]", "01", '{"a"}', ""]),
    "arithmetic": (["1+2*3", "-(x^2) - f(a, 3.5)", "a/b/c", "((1))"], ["1+", "(1", "2 3", "f(", "1..2"]),
    "sql": (
        [
            "SELECT * FROM users",
            "SELECT name, COUNT(*) AS n FROM t AS a JOIN b ON a.id = b.id WHERE x > 3 AND y IN (1, 2) "
            "GROUP BY name ORDER BY n DESC LIMIT 10;",
            "SELECT a FROM (SELECT b FROM c) AS d WHERE e IS NOT NULL",
            "SELECT UPPER(a) FROM t WHERE NOT (b LIKE 'x%' OR c BETWEEN 1 AND 2)",
        ],
        ["SELECT FROM x", "DELETE FROM x", "SELECT * FROM x WHERE", "SELECT * FROM x; SELECT"],
    ),
    "python_expression": (
        ["x + 1", "[a for a in b if a > 2]", "f(x, y=2)[1:].z", "lambda x: x*2", "{\"a\": 1, 'b': not c}", "a if b else c",
         "-x ** 2", "not_x", "()", "(1,)"],
        ["x +", "for", "1 2", "a..b", "if x", "f(", "x = 1", "lambda"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_the_grammar_files_are_right_about_their_language(name: str) -> None:
    oracle = _oracle(shipped_grammar(name).text, GrammarDialect.LARK)
    accepted, refused = FILES[name]
    assert [text for text in accepted if not oracle.accepts(text.encode())] == []
    assert [text for text in refused if oracle.accepts(text.encode())] == []


def test_every_grammar_file_has_a_test() -> None:
    assert set(shipped_grammars()) == set(FILES)


def test_a_grammar_that_does_not_come_with_the_package_is_an_error_that_names_those_that_do() -> None:
    with pytest.raises(ValueError, match=r"'yaml'.*arithmetic, json, python_expression, sql"):
        shipped_grammar("yaml")


def test_every_grammar_file_is_named_for_the_wheel() -> None:
    root = Path(__file__).parents[3]
    metadata = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    included = metadata["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    files = {f"grammars/{name}.lark": f"sgrt_grammars/shipped/{name}.lark" for name in shipped_grammars()}
    assert included == files
