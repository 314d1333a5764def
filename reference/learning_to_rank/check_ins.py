"""Made-up check-ins in Gowalla's manner: 2,000 people on their ways through a country of 2,000 places.

Nothing of any real data is in it. A place has a location, a style, a kind with opening hours, and an appeal; a person
has a taste and is under way with a heading that turns slowly. The next place is drawn from all that were not visited
before, with a probability proportional to

    exp(appeal + taste . style + opening(time of day, kind) - |location - goal|^2 / (2 REACH^2)),

where the goal lies STEP ahead of the last place. So the last places tell together what none of them tells alone: from
two of them one knows where the way leads. As in Gowalla after its filter a person has some 28 places in training, and
a place some 28 people; of all ordered pairs of places one in a hundred was ever seen to follow one another.

What is drawn here beside the visits (locations, tastes, ...) stays here: `visits` returns who went where, in order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PEOPLE, PLACES = 2_000, 2_000
FEWEST, MOST = 25, 45  # places that a person goes to
TOWNS, TOWN_SPREAD, IN_TOWNS = 8, 0.08, 0.5  # half of the places are in towns, the others anywhere in the unit square
TRAITS, OWN_STYLE = 4, 0.7  # numbers in a style; how much of it isn't the kind's, which has 1
TASTE, APPEAL, OPENING = 4.0, 0.4, 0.5  # standard deviations
KINDS, TIMES, LINGER = 12, 4, 0.2  # kinds of places; times of day; how often a time of day is left out
STEP, REACH, TURN = 0.08, 0.08, 0.2  # way to the goal, width of what is near it; radians by which a heading turns
COUNTRY = 20  # seed of the places
PEOPLES = {"evaluation": 1, "validation": 2}  # seeds of two peoples in one country: settings are tuned on the second

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Places:
    """What decides visits and is told to nobody.

    Attributes:
        location: [places, 2] in the unit square.
        style: [places, TRAITS].
        appeal: [places].
        opening: [TIMES, places].
    """

    location: Array
    style: Array
    appeal: Array
    opening: Array


def places(count: int, seed: int) -> Places:
    """Draws `count` places, their numbers in no order."""
    rng = np.random.default_rng(seed)
    towns = rng.random((TOWNS, 2))
    location = towns[rng.integers(TOWNS, size=count)] + TOWN_SPREAD * rng.standard_normal((count, 2))
    outside = rng.random(count) > IN_TOWNS
    location[outside] = rng.random((int(outside.sum()), 2))
    location = 1 - np.abs(1 - np.abs(location))  # mirrored at the country's borders
    kind = rng.integers(KINDS, size=count)
    style = rng.standard_normal((KINDS, TRAITS))[kind] + OWN_STYLE * rng.standard_normal((count, TRAITS))
    opening = OPENING * rng.standard_normal((TIMES, KINDS))[:, kind]
    return Places(location, style / np.sqrt(TRAITS), APPEAL * rng.standard_normal(count), opening)


def ahead(at: Array, heading: Array) -> tuple[Array, Array]:
    """The goals STEP ahead of `at` [n, 2], and the headings [n]: mirrored where the way would leave the country."""
    goal = at + STEP * np.stack((np.cos(heading), np.sin(heading)), axis=1)
    left = (goal < 0) | (goal > 1)
    heading = np.where(left[:, 0], np.pi - heading, heading)
    heading = np.where(left[:, 1], -heading, heading)
    return at + STEP * np.stack((np.cos(heading), np.sin(heading)), axis=1), heading


def visits(people: int, known: Places, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Who went where: people (from 0) and places (from 1), one person after the other, each in order of time.

    Everything is computed element by element in 64 bits: another machine's rounding has next to nothing to decide.

    Args:
        people: how many.
        known: where they can go, MOST places or more.
        seed: of the people, their tastes and ways.
    """
    rng = np.random.default_rng(seed)
    taste = TASTE * rng.standard_normal((people, TRAITS))
    liked = known.appeal + sum(taste[:, trait, None] * known.style[:, trait] for trait in range(TRAITS))
    at = known.location[rng.integers(len(known.location), size=people)]
    heading, time = rng.uniform(0, 2 * np.pi, people), rng.integers(TIMES, size=people)
    lengths = rng.integers(FEWEST, MOST + 1, people)
    gone = np.zeros((people, MOST), dtype=np.int64)
    for turn in range(MOST):
        on = np.flatnonzero(turn < lengths)  # who is still under way
        heading[on] += TURN * rng.standard_normal(len(on))
        goal, heading[on] = ahead(at[on], heading[on])
        far = (goal[:, :1] - known.location[:, 0]) ** 2 + (goal[:, 1:] - known.location[:, 1]) ** 2
        logits = liked[on] + known.opening[time[on]] - far / (2 * REACH**2)
        chosen = drawn(logits, rng)
        gone[on, turn], at[on] = chosen, known.location[chosen]
        liked[on, chosen] = -np.inf  # never again
        time[on] = (time[on] + 1 + (rng.random(len(on)) < LINGER)) % TIMES
    taken = np.arange(MOST) < lengths[:, None]
    return np.repeat(np.arange(people), lengths), gone[taken] + 1


def drawn(logits: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    """One column number for each row, by the softmax of the row; -inf is never drawn."""
    sums = np.exp(logits - logits.max(axis=1, keepdims=True)).cumsum(axis=1)
    return (sums <= (rng.random(len(sums)) * sums[:, -1])[:, None]).sum(axis=1)
