"""instructor in every mode that a server's constraints can serve. Arguments as for openai_client.py."""

# mypy: ignore-errors
# pyright: reportMissingImports=false, reportOptionalMemberAccess=false
# pyright: reportAttributeAccessIssue=false, reportFunctionMemberAccess=false

from __future__ import annotations

import sys
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


def main() -> None:
    for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA):
        client = instructor.from_openai(
            OpenAI(base_url=f"{sys.argv[1]}/v1", api_key="none", max_retries=0), mode=mode
        )
        made = client.chat.completions.create(
            model="stub", messages=ASK, response_model=Person, temperature=0, max_tokens=300, max_retries=0
        )
        assert isinstance(made, Person), mode
    client = instructor.from_openai(
        OpenAI(base_url=f"{sys.argv[1]}/v1", api_key="none", max_retries=0), mode=instructor.Mode.JSON_SCHEMA
    )
    last = None
    for partial in client.chat.completions.create_partial(
        model="stub", messages=ASK, response_model=Person, temperature=0, max_tokens=300, max_retries=0
    ):
        last = partial
    assert last is not None
    assert last.address.kind in ("home", "work")


main()
