"""instructor in every mode it has for this API. Arguments as for openai_client.py, and a server that writes JSON."""

# mypy: ignore-errors
# pyright: reportMissingImports=false, reportOptionalMemberAccess=false
# pyright: reportAttributeAccessIssue=false, reportFunctionMemberAccess=false

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from typing import Literal

import instructor
from openai import OpenAI
from pydantic import BaseModel, Field

ASK = [{"role": "user", "content": "go"}]


class Address(BaseModel):
    city: str = Field(max_length=12)
    kind: Literal["home", "work"]


class Person(BaseModel):
    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=120)
    address: Address


class look_up(BaseModel):
    city: str
    days: int


def client_of(url: str, mode: instructor.Mode) -> instructor.Instructor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some modes are called old
        return instructor.from_openai(OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0), mode=mode)


def make(url: str, mode: instructor.Mode, limit: str = "max_tokens") -> None:
    made = client_of(url, mode).chat.completions.create(
        model="stub", messages=ASK, response_model=Person, temperature=0, max_retries=0, **{limit: 300}
    )
    assert isinstance(made, Person), mode


def main() -> None:
    talking, calling, writing = sys.argv[1:4]
    mode = instructor.Mode
    for demanded in (mode.TOOLS, mode.TOOLS_STRICT, mode.JSON_SCHEMA, mode.FUNCTIONS):
        make(talking, demanded)
    for responses in (mode.RESPONSES_TOOLS, mode.RESPONSES_TOOLS_WITH_INBUILT_TOOLS):
        make(talking, responses, "max_output_tokens")
    for asked_for in (
        mode.JSON,
        mode.JSON_O1,
        mode.MD_JSON,
    ):  # the schema is told to the model, not to the server
        make(writing, asked_for)
    calls = client_of(calling, mode.PARALLEL_TOOLS).chat.completions.create(
        model="stub",
        messages=ASK,
        response_model=Iterable[look_up],
        temperature=0,
        max_tokens=300,
        max_retries=0,
    )
    assert list(calls) == [look_up(city="Bern", days=3)]
    client = client_of(talking, mode.JSON_SCHEMA)
    last = None
    for partial in client.chat.completions.create_partial(
        model="stub", messages=ASK, response_model=Person, temperature=0, max_tokens=300, max_retries=0
    ):
        last = partial
    assert last is not None
    assert last.address.kind in ("home", "work")


main()
