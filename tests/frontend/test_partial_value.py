"""Partial objects of a type."""

from __future__ import annotations

from enum import Enum
from typing import Literal

import pytest
from pydantic import BaseModel, Field

from sgrt_frontend.types.partial import partial_value


class Color(Enum):
    RED = "red"


class Wheel(BaseModel):
    size: int
    color: Color = Color.RED


class Car(BaseModel):
    name: str = Field(alias="title")
    wheels: list[Wheel] = []
    spare: Wheel | None = None
    parts: dict[str, Wheel] = {}


def test_models_have_the_fields_that_were_begun_and_no_defaults() -> None:
    car = partial_value(Car, {"title": "Fi", "wheels": [{"size": 3}, {}]})
    assert isinstance(car, Car) and car.name == "Fi"
    assert not hasattr(car, "spare")
    assert [type(wheel) for wheel in car.wheels] == [Wheel, Wheel]
    assert car.wheels[0].size == 3 and not hasattr(car.wheels[0], "color")
    assert car.model_fields_set == {"name", "wheels"}


def test_unions_and_dicts_are_followed() -> None:
    car = partial_value(Car, {"spare": {"size": 1}, "parts": {"left": {"size": 2}}})
    assert isinstance(car.spare, Wheel) and isinstance(car.parts["left"], Wheel)
    assert partial_value(Car, {"spare": None}).spare is None


def test_enums_appear_when_their_text_is_whole() -> None:
    assert partial_value(Wheel, {"color": "re"}).color == "re"
    assert partial_value(Wheel, {"color": "red"}).color is Color.RED


@pytest.mark.parametrize(
    ("annotation", "data"),
    [
        (list[int], [1]),
        (dict[str, int], {"a": 1}),
        (int | str, "a"),
        (Literal["a"], "a"),
        (Car | Wheel, {"size": 1}),
    ],
)
def test_other_types_stay_data(annotation: object, data: object) -> None:
    assert partial_value(annotation, data) == data
