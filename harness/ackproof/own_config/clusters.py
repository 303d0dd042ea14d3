"""Groups files by the cluster that they describe, and assigns the other files to clusters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from ackproof.own_config.parts import Node, Part, Rank

#: A file with its content.
Read = tuple[str, Part]

#: Settings in which all nodes of one cluster agree.
_SHARED = ("controller.quorum.voters", "controller.quorum.bootstrap.servers", "zookeeper.connect")


@dataclass
class _Cluster:
    """Files about the nodes of one cluster. name: as a file states it, else the first file's."""

    name: str
    stated: bool
    members: list[Read] = field(default_factory=list)

    def takes(self, file: str, part: Part) -> bool:
        """Whether a file describes further nodes of this cluster, and no others."""
        if part.cluster and self.stated:
            return _same(part.cluster, self.name)
        for name, member in self.members:
            near = PurePath(name).parent == PurePath(file).parent
            if "override" in PurePath(file).name and near and part.shape == member.shape:
                return True
            if _installed_apart(part, member):
                return False
            if part.shape == member.shape:
                if _identities(part.nodes) & _identities(member.nodes):
                    return False
                near = near or bool(_agreed(part.nodes) & _agreed(member.nodes))
            if near:
                return True
        return False

    def known_to(self, part: Part) -> bool:
        """Whether a client's bootstrap servers are this cluster's nodes."""
        nodes = [node for _, member in self.members for node in member.nodes]
        names = {node.name for node in nodes} | {f"{self.name}-kafka-bootstrap"}
        for node in nodes:
            for key, given in node.settings.items():
                if key.endswith("listeners"):
                    names |= set(re.findall(r"//([\w.-]+):", given.value))
        servers = {
            address.rpartition(":")[0].split(".")[0]
            for client in (*part.producers, *part.consumers)
            if "bootstrap.servers" in client.settings
            for address in client.settings["bootstrap.servers"].value.split(",")
        }
        return bool(servers & (names - {"localhost", "", "0"}))


def _same(one: str, other: str) -> bool:
    """Whether two names are of one cluster; one of them may leave its namespace out."""
    spaces = {space for space, slash, _ in (one.rpartition("/"), other.rpartition("/")) if slash}
    return one.rpartition("/")[2] == other.rpartition("/")[2] and len(spaces) < 2


def _installed_apart(part: Part, member: Part) -> bool:
    """Whether two files cannot describe nodes of one cluster, whatever their folder is."""
    if len({part.tool, member.tool} - {""}) > 1:
        return True
    modes = {_mode(part.nodes), _mode(member.nodes)} - {""}
    return len(modes) > 1 or any(_of_two_clusters(node, member.nodes) for node in part.nodes)


def _mode(nodes: Iterable[Node]) -> str:
    """Return the mode of brokers by the settings that they need; '' if these do not show it."""
    keys = [node.settings.keys() for node in nodes if "broker" in node.roles]
    if any("process.roles" in own for own in keys):
        return "kraft"
    return "zookeeper" if any("zookeeper.connect" in own for own in keys) else ""


def _identities(nodes: Iterable[Node]) -> set[str]:
    ids = {given.value for node in nodes for given in node.ids} - {"-1"}
    return ids or {node.name for node in nodes}


def _agreed(nodes: Iterable[Node]) -> set[str]:
    return {node.settings[key].value for node in nodes for key in _SHARED if key in node.settings}


def _apart(file: str, part: Part) -> list[Part]:
    """Split a file into a part for each cluster of its nodes, and one for everything else.

    Nodes belong to different clusters if they name different controllers, or if they name different
    ZooKeepers and have the same ids.
    """
    groups: list[list[Node]] = []
    for node in part.nodes:
        home = next((group for group in groups if not _of_two_clusters(node, group)), None)
        if home is None:
            groups.append(home := [])
        home.append(node)
    if len(groups) < 2:
        return [part, *part.others]
    found = [
        Part(
            shape=part.shape,
            tool=part.tool,
            cluster=f"{file} ({', '.join(node.name for node in group)})",
            kafka=part.kafka,
            nodes=tuple(group),
        )
        for group in groups
    ]
    rest = replace(part, kafka=None, nodes=())
    return found if rest.empty else [*found, rest]


def _of_two_clusters(node: Node, group: Sequence[Node]) -> bool:
    for key in _SHARED:
        theirs = {one for other in group for one in _addresses(other, key)}
        if theirs and (own := _addresses(node, key)) and not own & theirs:
            return key != "zookeeper.connect" or bool(_identities([node]) & _identities(group))
    return False


def _addresses(node: Node, key: str) -> set[str]:
    stated = node.settings.get(key)
    return {one.strip() for one in stated.value.split(",")} if stated else set()


def _common(one: str, other: str) -> int:
    """Return how many leading folders the paths of two files share."""
    pairs = zip(PurePath(one).parent.parts, PurePath(other).parent.parts, strict=False)
    return next((at for at, (left, right) in enumerate(pairs) if left != right), 99)


def clusters(parts: Sequence[Read]) -> list[tuple[str, list[Read]]]:
    """Return the files of each cluster with its name.

    Files of one kind describe one cluster if they are in one folder or share their controllers or
    ZooKeeper, and do not describe the same node. Files for two tools that make brokers, such as
    compose and Helm, describe two clusters, and so do files of two modes. A file without nodes
    belongs to the cluster that it names, else to the one whose servers its clients name, else to
    the nearest by folder, else to all.
    """
    parts = [(file, one) for file, part in parts for one in _apart(file, part)]
    found: list[_Cluster] = []
    for file, part in sorted(parts, key=lambda one: "override" in PurePath(one[0]).name):
        if any(node.rank is Rank.STATIC for node in part.nodes):
            home = next((one for one in found if one.takes(file, part)), None)
            if home is None:
                home = _Cluster(part.cluster or file, bool(part.cluster))
                found.append(home)
            elif part.cluster:
                known = home.name if home.stated else ""
                home.name, home.stated = max(known, part.cluster, key=len), True
            home.members.append((file, part))
    if len(found) < 2:
        return [("", list(parts))]
    members = [{id(part) for _, part in one.members} for one in found]
    shares: list[list[Read]] = [[] for _ in found]
    for file, part in parts:
        own = [at for at, one in enumerate(members) if id(part) in one]
        for at in own or _of_others(found, file, part):
            shares[at].append((file, part))
    return [(one.name, share) for one, share in zip(found, shares, strict=True)]


def _of_others(found: Sequence[_Cluster], file: str, part: Part) -> list[int]:
    """Return the clusters to which a file without nodes belongs."""
    named = [
        at
        for at, one in enumerate(found)
        if part.cluster and one.stated and _same(part.cluster, one.name)
    ]
    known = [at for at, one in enumerate(found) if one.known_to(part)]
    nearness = [max(_common(file, name) for name, _ in one.members) for one in found]
    nearest = [at for at, near in enumerate(nearness) if near == max(nearness)]
    return named or known or nearest
