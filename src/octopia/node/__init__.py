"""A broker with the sessions of its links, pure: the object that every driver drives."""

from octopia.node.core import Node, introduce
from octopia.node.permissions import Permissions
from octopia.node.ready import Close, Failure, Ready
from octopia.node.settings import NodeSettings

__all__ = ["Close", "Failure", "Permissions", "Node", "NodeSettings", "Ready", "introduce"]
