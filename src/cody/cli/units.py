"""Options that say which events change together."""

from __future__ import annotations

from dataclasses import dataclass

import click

from cody.cli.command import bundled, option_fields
from cody.errors import CallError
from cody.graph.dependants import RULES, Rule, named_rule
from cody.graph.units import KINDS, UnitKind, named_kind

_space = option_fields("The search space")


HELP_OF_RULE = (
    f"Removed events take along those that depend on them: {' or '.join(RULES)}, with a time if it is not one day, "
    'like "reply 1h".'
)


@dataclass(frozen=True, slots=True)
class UnitOptions:
    """What changes together, and what goes along with it."""

    by: str = _space(
        type=click.Choice(KINDS),
        default=KINDS[0],
        help="What is removed at a time: single events, all events of a pair of nodes, of a neighbour (node), of a "
        "day or an hour, or a session of a source.",
    )
    gap: str | None = _space(
        metavar="TIME", help="With --by session: the pause that ends one, like 30min. Default: 1h."
    )
    with_ends: bool = _space(is_flag=True, help="With --by node: the two ends of the link are candidates, too.")
    with_dependants: str | None = _space(
        metavar="RULE",
        help=HELP_OF_RULE,
    )

    @property
    def kind(self) -> UnitKind | None:
        """What is removed at a time; None: single events."""
        try:
            return named_kind(self.by, gap=self.gap, ends=self.with_ends)
        except CallError as error:
            option = "--with-ends" if self.with_ends else f"--gap {self.gap}"
            raise CallError(f"{option}: {error}") from None

    @property
    def rule(self) -> Rule | None:
        """Which events go along; None: none."""
        return None if self.with_dependants is None else rule_in(self.with_dependants)


def rule_in(text: str) -> Rule:
    """The rule that `--with-dependants` names."""
    name, _, within = text.strip().partition(" ")
    try:
        return named_rule(name, within or None)
    except CallError as error:
        raise CallError(f"--with-dependants {text!r}: {error}") from None


unit_options = bundled("units", UnitOptions)
