"""Made-up interactions with an order to learn, in the real files' layouts: for the smoke profile and the tests."""

from __future__ import annotations

import numpy as np

from .movielens import HEADER

CHAIN = 20  # items that tend to follow one another
SIZE = 120, 120  # users and items of the smoke profile


def walks(users: int, items: int, seed: int = 0) -> list[list[int]]:
    """Each user's items (from 1) in order: two chains of CHAIN items, followed with gaps, changing now and then.

    User u takes 24 + u mod 12 different items; `items` is a multiple of CHAIN, two times or more.
    """
    rng = np.random.default_rng(seed)
    chains = items // CHAIN
    taken = []
    for user in range(users):
        homes = [user % chains, (user + 1 + user // chains % (chains - 1)) % chains]
        own: list[int] = []
        chain, place = homes[0], 0
        while len(own) < 24 + user % 12:
            item = chain * CHAIN + place % CHAIN + 1
            if item in own or rng.random() < 0.1:
                chain, place = homes[int(rng.integers(2))], int(rng.integers(CHAIN))
                continue
            own.append(item)
            place += int(rng.integers(1, 4))
        taken.append(own)
    return taken


def ratings(users: int, items: int) -> str:
    """The walks as recbole's ml-100k.inter, rows shuffled as there."""
    rows = [
        f"{user}\t{item}\t{1 + item % 5}\t{880_000_000 + place}"
        for user, own in enumerate(walks(users, items), start=1)
        for place, item in enumerate(own)
    ]
    order = np.random.default_rng(1).permutation(len(rows))
    return "\n".join([HEADER, *(rows[row] for row in order)]) + "\n"


def prepared(users: int, items: int) -> tuple[str, str]:
    """The walks as Gowalla's train.txt and test.txt."""
    train, test = [], []
    for user, own in enumerate(walks(users, items)):
        kept = len(own) - len(own) // 5
        train += [f"{user} {item} 1" for item in own[:kept]]
        test += [f"{user} {item} 1" for item in own[kept:]]
    return "\n".join(train) + "\n", "\n".join(test) + "\n"


def check_ins(users: int, items: int) -> str:
    """The walks as SNAP's loc-gowalla_totalCheckins.txt: the newest first, every first place visited twice."""
    rows = []
    for user, own in enumerate(walks(users, items)):
        visits = [own[0], *own]
        for place in reversed(range(len(visits))):
            time = f"2010-{1 + place // 28:02}-{1 + place % 28:02}T{user % 24:02}:00:00Z"
            rows.append(f"{user}\t{time}\t30.2359091167\t-97.7951395833\t{visits[place]}")
    return "\n".join(rows) + "\n"
