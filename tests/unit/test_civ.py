import pickle

import pytest

from octopia.protocol import ClusterIndexVector


def civ(text: str) -> ClusterIndexVector:
    return ClusterIndexVector(int(text, 2), len(text))


def test_it_prints_one_bit_a_cluster_with_cluster_0_rightmost():
    assert str(ClusterIndexVector.of([0], 4)) == "0001"
    assert str(ClusterIndexVector.of([3, 1], 4)) == "1010"
    assert str(ClusterIndexVector.of([], 3)) == "000"


def test_members_are_yielded_lowest_first():
    assert list(civ("101101")) == [0, 2, 3, 5]


def test_membership_length_and_truth():
    vector = civ("0110")
    assert [cluster in vector for cluster in range(4)] == [False, True, True, False]
    assert len(vector) == 2
    assert vector
    assert not civ("0000")


def test_setting_and_clearing_bits_makes_new_vectors():
    vector = civ("0010")
    assert str(vector.with_bit(3)) == "1010"
    assert str(vector.with_bit(1)) == "0010"
    assert str(vector.without_bit(1)) == "0000"
    assert str(vector.without_bit(0)) == "0010"
    assert str(vector) == "0010"


def test_or_joins_two_vectors():
    assert civ("0011") | civ("0110") == civ("0111")


def test_the_64th_cluster_has_a_bit_too():
    vector = ClusterIndexVector.of([63], 64)
    assert 63 in vector
    assert list(vector) == [63]
    assert str(vector) == "1" + "0" * 63


def test_it_cannot_be_changed_in_place():
    with pytest.raises(AttributeError):
        civ("01").bits = 3


def test_equal_vectors_are_equal_hash_alike_and_survive_pickling():
    assert civ("011") == ClusterIndexVector.of([1, 0], 3)
    assert hash(civ("011")) == hash(ClusterIndexVector.of([1, 0], 3))
    assert civ("011") != civ("0011")
    assert pickle.loads(pickle.dumps(civ("011"))) == civ("011")
