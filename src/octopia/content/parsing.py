"""Parsing for both text forms: running a grammar within the limits, and readable errors.

lark does the parsing (LALR, no recursion) and calls a builder object for each rule, so that no parse tree is built. Its
errors name terminals; this module turns them into sentences that say what was expected, after what, what was found and
where. lark is imported when the first text is parsed, because most programs that import OctopiA never parse one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from octopia.content.expressions import Expression, check_size
from octopia.content.hints import hint_at
from octopia.content.limits import FILTER_DEPTH_MAX, FILTER_TEXT_BYTES_MAX, FILTER_TOKENS_MAX
from octopia.content.values import INTEGER_MAX, INTEGER_MIN, check_name
from octopia.errors import FilterTooLarge, InvalidFilter

if TYPE_CHECKING:
    from lark import Lark, Token

Phrases: TypeAlias = Sequence[tuple[Collection[str], Collection[str], str]]
"""Descriptions of what was expected: terminals that must all be acceptable, terminals that are included, the phrase."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Grammar:
    """A parser with the phrases for its terminals."""

    parser: Lark
    phrases: Phrases


def load_grammar(file: str, builder: object, phrases: Phrases, keywords: Collection[str] = ()) -> Grammar:
    """Build the parser of a grammar file in this folder; each keyword becomes a terminal."""
    from lark import Lark, Token

    def recognise(token: Token) -> Token:
        word = token.upper()
        if word not in keywords:
            return token
        # lark drops terminals that begin with _; the builder needs the two constants.
        return Token.new_borrow_pos(word if word in ("TRUE", "FALSE") else f"_{word}", token.value, token)

    parser = Lark.open(
        file,
        rel_to=__file__,
        parser="lalr",
        lexer="basic",
        maybe_placeholders=False,
        # lark needs only methods with the names of its rules, not a subclass of its Transformer.
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
    """Raise ``InvalidFilter`` for a text that is too long or is not valid Unicode."""
    if type(text) is not str:
        raise InvalidFilter(f"expected a filter as a str, got {type(text).__qualname__}")
    try:
        # A long text is not encoded: it has at least one byte per code point.
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

    # lark leaves parts of its interactive parser untyped.
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
            raise _unexpected(grammar, guard.tokens, text, "the end of the text", len(text)) from None
        # The last token of the guard is the one that the parser refused.
        raise _unexpected(grammar, guard.tokens[:-1], text, _quote(error.token), _position(error.token)) from None


class _Guard:
    """Stores the tokens as they are parsed, and checks their number and the nesting of parentheses."""

    __slots__ = ("nesting", "tokens")

    def __init__(self) -> None:
        self.nesting = 0
        self.tokens: list[Token] = []

    def see(self, token: Token) -> None:
        # The list after IN does not nest conditions, and is allowed at the deepest level.
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
        hint = "" if character == "'" else hint_at(text, position, _expected_after(grammar, before), "")
        return InvalidFilter(_with(sentence, hint), position=position, expected=(f"a closing {character}",))
    got = character if character.isprintable() else f"the character U+{ord(character):04X}"
    return _unexpected(grammar, before, text, got, position)


def _unexpected(grammar: Grammar, before: Sequence[Token], text: str, got: str, position: int) -> InvalidFilter:
    expected = _expected_after(grammar, before)
    context = f" after {_quote(before[-1])}" if before else ""
    sentence = f"expected {_one_of(expected)}{context}, got {got} at position {position}"
    hint = hint_at(text, position, expected, str(before[-1].value) if before else "")
    return InvalidFilter(_with(sentence, hint), position=position, expected=expected)


def _expected_after(grammar: Grammar, before: Sequence[Token]) -> list[str]:
    # The parser may have reduced before it refused, and would then name only part of what it accepts.
    replayed: Any = grammar.parser.parse_interactive("")
    for token in before:
        replayed.feed_token(token)
    return _describe(replayed.accepts(), grammar.phrases)


def _with(sentence: str, hint: str) -> str:
    return f"{sentence}: {hint}" if hint else sentence


def _describe(terminals: Collection[str], phrases: Phrases) -> list[str]:
    """Return the phrases for the terminals that the parser would have accepted, in the order of the phrases."""
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
    """Return an error with this sentence and the position of a token."""
    position = _position(token)
    return error(f"{sentence} at position {position}", position=position)


def at_token(token: Token, build: Callable[[], T]) -> T:
    """Call ``build``; add the position of a token to an error that it raises."""
    try:
        return build()
    except InvalidFilter as error:
        raise refuse_at(token, error.sentence, type(error)) from None


def read_number(token: Token) -> int | float:
    """Read a number: a 64-bit int, or a float if it has a point or an exponent."""
    text = str(token.value)
    if text.lstrip("+-").isdecimal():
        integer = int(text)
        if not INTEGER_MIN <= integer <= INTEGER_MAX:
            raise refuse_at(token, f"expected a signed 64-bit integer, got {_quote(token)}")
        return integer
    number = float(text)
    if math.isinf(number):
        raise refuse_at(token, f"expected a number in the range of a double, got {_quote(token)}")
    return number


def read_string(token: Token) -> str:
    """Read a string or a quoted name: remove the quotes, and turn two quotes inside into one."""
    text = str(token.value)
    return text[1:-1].replace(text[0] * 2, text[0])


def read_name(token: Token) -> str:
    """Read an attribute name, plain or quoted."""
    name = read_string(token) if token.type == "QUOTED" else str(token.value)
    at_token(token, lambda: check_name(name, "in a filter", InvalidFilter))
    return name
