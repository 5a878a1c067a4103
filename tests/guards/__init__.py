"""Guards are tested by removal: each is taken away in turn, and something must go red.

    catalogue.py    every trigger, unique index, policy and FORCE of a migrated database, with the SQL that removes it
    ground.py       one lawful row in every table: what attacks start from
    attacks.py      for each of these guards an attack that only it withstands
    statements.py   every owner predicate and SKIP LOCKED of the statements, with what they become when they are removed
    removal.py      removes one, and says what went red

`python -m tests.guards` removes every one of them; `--list` prints them.
"""

__all__: list[str] = []
