"""``octopia filter``: try filters without a broker."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from octopia.cli.lazy import examples
from octopia.cli.options import AsJson
from octopia.cli.output import print_json
from octopia.cli.values import read_attributes
from octopia.content import Disjunction, Filter, Mismatch, Publication, explain_filter, parse_filter
from octopia.content.doubts import doubts_about
from octopia.content.formatting import show_expression


@examples(
    "octopia filter check \"symbol = 'IBM' AND price > 100\"",
    "octopia filter check \"symbol = 'IBM' AND price > 100\" symbol=IBM price=99",
    'octopia filter check "price > 100 OR volume > 1000" price=99 --json',
)
def check(
    text: Annotated[str, typer.Argument(metavar="FILTER", help='A filter, such as "price > 100".')],
    attributes: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE", help="Attributes of a publication to try.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a filter, and try it on a publication.

    Without attributes it prints the normal form: conjunctions, one of which must be true. With attributes it prints for
    each conjunction which conditions are true, false or unknown, and the exit code is 1 if the filter does not match.
    Doubtful conditions, such as a number compared with a string, give warnings.
    """
    interest = parse_filter(text)
    publication = Publication(read_attributes(attributes)) if attributes else None
    matches = None if publication is None else interest.matches(publication)
    warnings = doubts_about(interest)
    if as_json:
        conjunctions = [_to_json(each, publication) for each in interest.filters]
        print_json({"filter": str(interest), "matches": matches, "conjunctions": conjunctions, "warnings": warnings})
    else:
        _print(interest, publication, matches)
        for each in warnings:
            typer.echo(f"warning: {each}", err=True)
    if matches is False:
        raise typer.Exit(1)


def _print(interest: Disjunction, publication: Publication | None, matches: bool | None) -> None:
    if matches is not None:
        typer.echo("it matches" if matches else "it does not match")
    if not interest.filters:
        typer.echo("FALSE: it matches no publication")
    for number, each in enumerate(interest.filters, start=1):
        typer.echo(f"{number}. {Disjunction((each,))}")
        if publication is not None:
            for predicate, answer, reason in _judged(each, publication):
                typer.echo(f"   {answer:<8} {predicate}{reason and ': ' + reason}")


def _judged(conjunction: Filter, publication: Publication) -> list[tuple[str, str, str]]:
    """Return each predicate of a conjunction with its answer, and the reason if it is not true."""
    failed = {each.predicate: each for each in explain_filter(conjunction, publication)}
    return [
        (show_expression(each), _answer(failed.get(each)), failed[each].reason if each in failed else "")
        for each in conjunction.predicates
    ]


def _answer(mismatch: Mismatch | None) -> str:
    if mismatch is None:
        return "true"
    return "unknown" if mismatch.answer is None else "false"


def _to_json(conjunction: Filter, publication: Publication | None) -> dict[str, Any]:
    shown: dict[str, Any] = {"filter": str(Disjunction((conjunction,)))}
    if publication is not None:
        judged = _judged(conjunction, publication)
        shown["matches"] = all(answer == "true" for _, answer, _ in judged)
        shown["conditions"] = [
            {"condition": predicate, "answer": answer, "reason": reason or None} for predicate, answer, reason in judged
        ]
    return shown
