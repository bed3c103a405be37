"""`select`: the most probable of some texts, with a calibrated probability for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from sgrt_frontend.errors import InvalidRequest
from sgrt_frontend.expression import Expression, Var
from sgrt_frontend.gen import checked_choices


class Normalization(Enum):
    """How a choice's weight comes from its log-probability.

    `NONE` is the probability itself, which is calibrated. `TOKEN_LENGTH` is the mean
    log-probability per token of the likeliest spelling: comparable with other tools, but biased to
    long texts with predictable ends.
    """

    NONE = "none"
    TOKEN_LENGTH = "token_length"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Select(Expression, Var[str]):
    """A selection that has not run yet, and the handle of its variable.

    The weight of a choice is the probability that the text goes on with exactly that choice and
    then ends: with `terminator` or, without one, with an end token. `open_ended` leaves the
    end out (None: it is left out unless the selection stands in an assistant turn).
    """

    variable: str
    choices: tuple[str, ...]
    temperature: float = 0.0
    terminator: str = ""
    open_ended: bool | None = None
    normalization: Normalization = Normalization.NONE
    max_unexplored: float = 1e-4
    all_spellings: bool = True
    seed: int | None = None

    @property
    def name(self) -> str:
        """The variable's name."""
        return self.variable


def select(
    name: str,
    choices: Sequence[str],
    *,
    temperature: float = 0.0,
    terminator: str = "",
    open_ended: bool | None = None,
    normalization: Normalization = Normalization.NONE,
    max_unexplored: float = 1e-4,
    all_spellings: bool = True,
    seed: int | None = None,
) -> Select:
    """Choose one of `choices` by its probability under the model.

    The weight of a choice sums over its spellings in tokens, best first, until at most
    `max_unexplored` of the weight is unknown. `temperature=0` takes the heaviest, above 0 a choice
    is drawn. `all_spellings=False` counts the tokenizer's own spelling of each choice alone: far less work for
    long choices, and no bound. `s.meta(name).probabilities` has the probability of each choice and
    `s.meta(name).unexplored` the bound reached.

    Raises:
        InvalidRequest: no choice, an empty one, or one twice; a temperature below 0.
    """
    if temperature < 0:
        raise InvalidRequest("temperature: must be at least 0", param="temperature")
    if not 0 < max_unexplored < 1:
        raise InvalidRequest("max_unexplored: must lie in (0, 1)", param="max_unexplored")
    if terminator and open_ended:
        raise InvalidRequest("open_ended: contradicts a terminator", param="open_ended")
    return Select(
        variable=name,
        choices=checked_choices(choices),
        temperature=temperature,
        terminator=terminator,
        open_ended=open_ended,
        normalization=normalization,
        max_unexplored=max_unexplored,
        all_spellings=all_spellings,
        seed=seed,
    )
