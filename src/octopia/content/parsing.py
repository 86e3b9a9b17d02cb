"""What the two text forms share: running a grammar within the limits, and errors that people can act on.

lark does the parsing (LALR, no recursion) and calls a builder object for each rule, so that no parse tree is ever
made. Its errors name terminals; here they become sentences: what was expected, after what, what came, and where. lark
is imported when the first text is parsed, because most programs that import OctopiA never parse one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from octopia.content.expressions import Expression, check_size
from octopia.content.limits import FILTER_DEPTH_MAX, FILTER_TEXT_BYTES_MAX, FILTER_TOKENS_MAX
from octopia.content.values import INTEGER_MAX, INTEGER_MIN, check_name
from octopia.errors import FilterTooLarge, InvalidFilter

if TYPE_CHECKING:
    from lark import Lark, Token

Phrases: TypeAlias = Sequence[tuple[Collection[str], Collection[str], str]]
"""How to say what was expected: terminals that must all be acceptable, others that the phrase includes, the phrase."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Grammar:
    """A parser together with the words for its terminals."""

    parser: Lark
    phrases: Phrases


def load_grammar(file: str, builder: object, phrases: Phrases, keywords: Collection[str] = ()) -> Grammar:
    """Build the parser of a grammar file in this folder; words that are keywords get terminals of their own."""
    from lark import Lark, Token

    def recognise(token: Token) -> Token:
        word = token.upper()
        if word not in keywords:
            return token
        # Terminals that begin with _ are dropped by lark; the two constants are needed by the builder.
        return Token.new_borrow_pos(word if word in ("TRUE", "FALSE") else f"_{word}", token.value, token)

    parser = Lark.open(
        file,
        rel_to=__file__,
        parser="lalr",
        lexer="basic",
        maybe_placeholders=False,
        # lark wants only the methods that are named like its rules, not its own class.
        transformer=cast(Any, builder),
        lexer_callbacks={"NAME": recognise},
    )
    return Grammar(parser, phrases)


def run_grammar(grammar: Grammar, text: str) -> Expression:
    """Parse a text that has passed ``check_text`` into an expression within the limits."""
    try:
        expression = _feed(grammar, text)
        check_size(expression)
    except InvalidFilter as error:
        # Builders know positions but not the text.
        raise type(error)(error.sentence, text, error.position, error.expected) from None
    return expression


def check_text(text: str) -> None:
    """Refuse a text that is too long or is not valid Unicode."""
    if type(text) is not str:
        raise InvalidFilter(f"expected a filter as a str, got {type(text).__qualname__}")
    try:
        # A long text is not even encoded: it has at least one byte for each code point.
        size = len(text) if len(text) > FILTER_TEXT_BYTES_MAX else len(text.encode())
    except UnicodeEncodeError as error:
        code = f"U+{ord(text[error.start]):04X}"
        raise InvalidFilter(
            f"expected valid Unicode, got the lone surrogate {code} at position {error.start}"
        ) from None
    if size > FILTER_TEXT_BYTES_MAX:
        raise FilterTooLarge(f"expected a filter of at most {FILTER_TEXT_BYTES_MAX} bytes, got {size}")


def _feed(grammar: Grammar, text: str) -> Expression:
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    # lark leaves parts of its interactive parser without types.
    parser: Any = grammar.parser.parse_interactive(text)
    guard = _Guard()
    try:
        for token in parser.iter_parse():
            guard.see(token)
        return cast(Expression, parser.feed_eof(guard.tokens[-1] if guard.tokens else None))
    except UnexpectedCharacters as error:
        raise _bad_character(grammar, guard.tokens, text, error.pos_in_stream or 0) from None
    except UnexpectedToken as error:
        if error.token.type == "$END":
            raise _unexpected(grammar, guard.tokens, "the end of the text", len(text)) from None
        # The guard has seen the token that the parser refused.
        raise _unexpected(grammar, guard.tokens[:-1], _quote(error.token), _position(error.token)) from None


class _Guard:
    """Keeps the tokens as they pass, and counts them and the open parentheses."""

    __slots__ = ("nesting", "tokens")

    def __init__(self) -> None:
        self.nesting = 0
        self.tokens: list[Token] = []

    def see(self, token: Token) -> None:
        # The list behind IN nests nothing, and may stand at the deepest level.
        opens_group = token.type == "LPAR" and not (self.tokens and self.tokens[-1].type == "_IN")
        self.nesting += (token.type == "LPAR") - (token.type == "RPAR")
        self.tokens.append(token)
        if len(self.tokens) > FILTER_TOKENS_MAX:
            raise refuse_at(token, f"expected at most {FILTER_TOKENS_MAX} tokens, got one more", FilterTooLarge)
        if opens_group and self.nesting > FILTER_DEPTH_MAX:
            sentence = f"expected at most {FILTER_DEPTH_MAX} nested parentheses, got one more"
            raise refuse_at(token, sentence, FilterTooLarge)


def _bad_character(grammar: Grammar, before: Sequence[Token], text: str, position: int) -> InvalidFilter:
    character = text[position]
    if character in ("'", '"'):
        kind = "string" if character == "'" else "quoted name"
        sentence = f"expected a closing {character} for the {kind} that begins at position {position}, got none"
        return InvalidFilter(sentence, position=position, expected=(f"a closing {character}",))
    got = character if character.isprintable() else f"the character U+{ord(character):04X}"
    return _unexpected(grammar, before, got, position)


def _unexpected(grammar: Grammar, before: Sequence[Token], got: str, position: int) -> InvalidFilter:
    # The parser may have reduced before it refused, and would then tell only part of what it would have taken.
    replayed: Any = grammar.parser.parse_interactive("")
    for token in before:
        replayed.feed_token(token)
    expected = _describe(replayed.accepts(), grammar.phrases)
    context = f" after {_quote(before[-1])}" if before else ""
    sentence = f"expected {_one_of(expected)}{context}, got {got} at position {position}"
    return InvalidFilter(sentence, position=position, expected=expected)


def _describe(terminals: Collection[str], phrases: Phrases) -> list[str]:
    """Say in words which terminals the parser would have taken, in the order of the phrases."""
    left = set(terminals)
    words: list[str] = []
    for needed, included, phrase in phrases:
        if left.issuperset(needed):
            words.append(phrase)
            left.difference_update(needed, included)
    return words


def _one_of(words: Sequence[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


def _quote(token: Token) -> str:
    text = str(token.value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _position(token: Token) -> int:
    return token.start_pos or 0


def refuse_at(token: Token, sentence: str, error: type[InvalidFilter] = InvalidFilter) -> InvalidFilter:
    """Make the error that a sentence without a place becomes at a token."""
    position = _position(token)
    return error(f"{sentence} at position {position}", position=position)


def at_token(token: Token, build: Callable[[], T]) -> T:
    """Call ``build``; where it refuses, say at which token."""
    try:
        return build()
    except InvalidFilter as error:
        raise refuse_at(token, error.sentence, type(error)) from None


def read_number(token: Token) -> int | float:
    """Read a number: an int of 64 bits, or a float where it has a point or an exponent."""
    text = str(token.value)
    if text.lstrip("+-").isdecimal():
        integer = int(text)
        if not INTEGER_MIN <= integer <= INTEGER_MAX:
            raise refuse_at(token, f"expected an integer of 64 bits with sign, got {_quote(token)}")
        return integer
    number = float(text)
    if math.isinf(number):
        raise refuse_at(token, f"expected a number within the range of doubles, got {_quote(token)}")
    return number


def read_string(token: Token) -> str:
    """Read a string or a quoted name: the quotes go, and two quotes inside become one."""
    text = str(token.value)
    return text[1:-1].replace(text[0] * 2, text[0])


def read_name(token: Token) -> str:
    """Read an attribute name, plain or quoted."""
    name = read_string(token) if token.type == "QUOTED" else str(token.value)
    at_token(token, lambda: check_name(name, "in a filter", InvalidFilter))
    return name
