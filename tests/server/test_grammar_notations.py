"""A grammar's notation is told by its text, the same way wherever it comes from."""

from __future__ import annotations

import pytest
from server_client import PieceBackend, serving

import sgrt
from sgrt.llm.sampling_params import StructuredOutputsParams
from sgrt_frontend.errors import ConstraintError
from sgrt_grammars import GrammarDialect, context_free
from sgrt_grammars.constraint import ContextFree
from sgrt_grammars.shipped import shipped_grammar, shipped_grammars

TEXTS = {
    'root ::= "a" item\nitem ::= "b"': GrammarDialect.GBNF,
    '# a comment\n\n  root\n::= "a"': GrammarDialect.GBNF,
    'item ::= "b"\nroot ::= item': GrammarDialect.GBNF,
    'main ::= "a" | "b"': GrammarDialect.EBNF,
    'sub-rule.2 ::= "root ::="': GrammarDialect.EBNF,
    'start: "a"': GrammarDialect.LARK,
    'start: "root ::= x"': GrammarDialect.LARK,
    '// root ::= "a"\nstart: "a" // x ::= y': GrammarDialect.LARK,
    "start: /a\nroot ::= b/": GrammarDialect.LARK,
    'start: "::="': GrammarDialect.LARK,
    "": GrammarDialect.LARK,
}
REFUSED = ('main ::= "a" | "b"', 'sub-rule.2 ::= "root ::="', "start: /a\nroot ::= b/", "")
"""Those whose notation is plain, but which have no start, or do not parse."""


@pytest.mark.parametrize("text", TEXTS)
def test_the_first_rule_shows_the_notation(text: str) -> None:
    assert context_free(text) == ContextFree(text=text, dialect=TEXTS[text])


def test_grammars_that_come_with_the_package_are_lark() -> None:
    for name in shipped_grammars():
        grammar = shipped_grammar(name)
        assert context_free(grammar.text) == grammar


@sgrt.function
def shaped(s: sgrt.State, grammar: str) -> None:
    s += sgrt.gen("x", grammar=grammar, max_tokens=9)


@pytest.mark.parametrize("text", [text for text in TEXTS if text not in REFUSED])
def test_programs_batches_and_servers_agree(text: str) -> None:
    expected = context_free(text)
    assert StructuredOutputsParams(grammar=text).constraint() == expected
    backend = PieceBackend()
    shaped.on(backend).run(text)
    assert backend.calls[-1].constraint == expected
    with serving(server := PieceBackend()) as client:
        tag = {"type": "structural_tag", "format": {"type": "grammar", "grammar": text}}
        for fields in ({"structured_outputs": {"grammar": text}}, {"response_format": tag}):
            assert client.chat(**fields).status_code == 200
            assert server.calls[-1].constraint == expected


@pytest.mark.parametrize("text", [text for text in REFUSED if text])
def test_what_is_no_grammar_is_refused_at_the_line_of_the_program(text: str) -> None:
    backend = PieceBackend()
    with pytest.raises(ConstraintError, match="grammar"):
        shaped.on(backend).run(text)
    assert not backend.calls
