import itertools

import pytest

from octopia.errors import InvalidOverlay
from octopia.overlay.column_order import column_order
from octopia.overlay.trees import Tree, default_clusters, parse_tree, region_names


def refused(text: str) -> str:
    with pytest.raises(InvalidOverlay) as caught:
        parse_tree(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "regions", "edges"),
    [
        ("a-b, b-c", "a b c", "a-b b-c"),
        (" c - b,b-a ", "a b c", "a-b b-c"),
        ("a", "a", ""),
        ("site_1-Site2", "Site2 site_1", "Site2-site_1"),
        ("path:1", "a", ""),
        ("path:3", "a b c", "a-b b-c"),
        ("star:1", "a", ""),
        ("star:5", "a b c d e", "a-b a-c a-d a-e"),
        ("binary:7", "a b c d e f g", "a-b a-c b-d b-e c-f c-g"),
        ("binary:4", "a b c d", "a-b a-c b-d"),
        (" path : 2 ", "a b", "a-b"),
        ("paper:fig3", "a b c d e f", "a-b b-c b-d d-e e-f"),
        ("paper:fig7", "a b c", "a-b b-c"),
        (
            "paper:se",
            "A B C D E F G H I J K L M N",
            "A-F B-G C-H D-I E-F F-G F-K G-H G-L H-I H-M I-J I-N",
        ),
    ],
)
def test_texts_that_make_a_tree(text: str, regions: str, edges: str):
    tree = parse_tree(text)
    assert " ".join(tree.regions) == regions
    assert " ".join("-".join(edge) for edge in tree.edges) == edges


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "got an empty string"),
        ("  ", "got an empty string"),
        ("a-a", "got the self edge a-a"),
        ("a-b, a-b", "got a-b twice"),
        ("a-b, b-a", "got a-b twice (a-b and b-a are the same edge)"),
        ("a-b, b-c, c-a", "got the cycle b-a-c-b; remove one of its edges, such as b-c"),
        ("x-a, a-b, b-c, c-d, d-a, x-y", "got the cycle c-b-a-d-c"),
        ("a-b, c-d", "no path from region a to c, d; add an edge such as a-c"),
        ("a-b, c-d, e-f, g-h", "to c, d, e, f, g, …"),
        ("a-b,", 'got ""'),
        ("a, b", 'got "a"'),
        ("a-b, c", 'got "c"'),
        ("a-b-c", 'got "a-b-c" (did you mean "a-b, b-c"?)'),
        ("a–b", 'got "a–b"'),  # noqa: RUF001
        ("1-b", 'got "1-b"'),
        ("é", 'expected a region to be a letter and then letters, digits or underscores, got "é"'),
        ("a b", 'got "a b"'),
        ("pth:3", 'expected a generator, one of path, star, binary, paper, got "pth" (did you mean "path"?)'),
        ("zzz:3", 'got "zzz"'),
        ("paper:fig8", 'expected a tree of the paper, one of fig3, fig7, se, got "fig8" (did you mean "fig'),
        ("path:0", 'expected a number of regions from 1 to 10000 after path:, got "0"'),
        ("path:-1", 'got "-1"'),
        ("path:", 'got ""'),
        ("path:2.5", 'got "2.5"'),
        ("path:10001", 'got "10001"'),
        ("star:" + "9" * 9999, 'got "9999'),
    ],
)
def test_texts_that_make_none(text: str, message: str):
    sentence = refused(text)
    assert message in sentence
    assert len(sentence) < 250


def test_constructor_wants_the_canonical_form():
    assert Tree(("a", "b"), (("a", "b"),)) == parse_tree("b-a")
    for regions, edges, message in [
        ((), (), "at least one region"),
        (("b", "a"), (("a", "b"),), "expected sorted, distinct regions"),
        (("a", "a"), (), "expected sorted, distinct regions"),
        (("a", "b"), (("b", "a"),), "lower region first, got b-a"),
        (("a",), (("a", "b"),), "expected every edge to join regions of the tree, got a-b"),
        (("a", "b", "c"), (("b", "c"), ("a", "b")), "got b-c before a-b"),
    ]:
        with pytest.raises(InvalidOverlay, match=message):
            Tree(regions, edges)


def test_more_regions_than_the_limit():
    edges = list(itertools.pairwise(itertools.islice(region_names(), 10_001)))
    with pytest.raises(InvalidOverlay, match="at most 10000 regions, got 10001"):
        Tree.of(edges)


def test_generated_names():
    names = list(itertools.islice(region_names(), 26 * 27 + 1))
    assert names[:3] == ["a", "b", "c"]
    assert names[25:29] == ["z", "aa", "ab", "ac"]
    assert names[-2:] == ["zz", "aaa"]


@pytest.mark.parametrize(
    ("text", "diameter"), [("a", 0), ("a-b", 1), ("star:9", 2), ("path:5000", 4999), ("paper:se", 5), ("binary:7", 4)]
)
def test_diameter(text: str, diameter: int):
    assert parse_tree(text).diameter == diameter


def test_default_clusters():
    assert [default_clusters(f"paper:{name}") for name in ("fig3", "fig7", "se")] == [3, 4, 4]
    assert default_clusters("paper: se") == 4
    assert default_clusters("path:3") is None
    assert default_clusters("a-b") is None
    assert default_clusters("se") is None


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("a", "a"),
        ("path:5", "a b c d e"),
        ("c-a, a-b", "b a c"),
        ("paper:fig3", "a b c d e f"),
        ("star:5", "b d a e c"),
        ("paper:se", "A E F K B G L C H M J I N D"),
        ("binary:7", "d b e a c g f"),
    ],
)
def test_column_order(text: str, order: str):
    assert " ".join(column_order(parse_tree(text))) == order


def test_column_order_of_a_deep_tree():
    arms = [f"m-{arm}0" for arm in "xyz"]
    arms += [f"{arm}{number}-{arm}{number + 1}" for arm in "xyz" for number in range(2000)]
    tree = parse_tree(", ".join(arms))
    assert sorted(column_order(tree)) == list(tree.regions)
