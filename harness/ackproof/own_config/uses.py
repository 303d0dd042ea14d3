"""What an answer used of the settings that files state, and why it used no others.

A setting is used if a rule of the answer looked it up (`Lookups`), or if it is among what a run
gets. `Reason` has every cause for which one is not used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache

from ackproof.own_config.configuration import Bearer, FileLine, OwnConfig, Settings, Stated
from ackproof.own_config.lookups import Lookups
from ackproof.own_config.names import OF_ADMIN, is_librdkafka, of_framework
from ackproof.own_config.parts import has_value
from ackproof.scenario.kafka_clients import ALIASES
from ackproof.scenario.kafka_keys import Scope, ignored, known
from ackproof.scope import SUBJECTS
from ackproof_model.removal import setting_names


class Reason(StrEnum):
    """Why an answer does not use a setting that a file states. A run has reasons of its own."""

    NOT_READ = "the reader of this kind of file does not read it at this place"
    OTHER_PLACE = "the reader takes this setting from another place of the file"
    OTHER_FILE = "a later file has another value, which is taken"
    OUTRANKED = "another source outranks it"
    FILE_REFUSED = "its file is not read, for the reason that stands beside its name"
    NO_VALUE = "it is empty, or something else fills it in"
    NOT_CHOSEN = "an option leaves out its topic, client or profile"
    OTHER_KIND = "Kafka has no such setting of a broker, a topic or a client where it stands"
    VERSION = "this version of Kafka or of its client does not have it"
    NOT_MODELLED = "it belongs to a part of Kafka that no answer covers (docs/reference/scope.md)"
    REFUSED = "a client or a broker refuses the configuration, so that nothing else is asked"
    ADMIN = "an admin client has it, which writes and reads no records"
    NO_RULE = "no rule of this answer reads it"
    PLACEMENT = "of where nodes run: the answer assumes that any of them may fail, also together"
    PODS = "of how pods end and how many at once: the answer has planned restarts and crashes"
    VOLUMES = (
        "of the size and kind of a volume: the answer knows only whether a volume holds the logs"
    )
    ELSEWHERE = "what it names was not given: settings in it are not known"
    NO_EFFECT = "addresses, folders, security, metrics: no loss depends on it"

    NODES = "ackproof chooses nodes, addresses and folders itself"
    SECURITY = "ackproof's own cluster has its own security (cluster.security)"
    CLASSES = "classes and files of your machines are not there"
    KEEPS = "retention is off, so that only a loss removes a record"
    PARTITIONS = "the scenario has its own partitions"
    NOT_TIERED = "a run's brokers have no remote store"
    CONTROLLERS = "a run has controllers of its own"
    CONSUMERS = "the scenario has its own consumers"
    ONE_OF_EACH = "a scenario has one topic, and one kind of producer"
    TRANSACTIONS = "the run's sends are in no transaction; set workload.transactions for that"
    SET_BY_US = "ackproof sets it for its own cluster"
    OF_LIBRDKAFKA = "librdkafka knows it, and no loss depends on it"
    NOT_OF_LIBRDKAFKA = "it does not apply to librdkafka, whose producers the run uses"
    FORBIDDEN = "a run's clients cannot have it: it loads code, or hides what is acked"


#: Settings of brokers by which nodes are found, with what a run says of them.
NODES = re.compile(
    r".*listener.*|.*quorum\.(voters|bootstrap.*)|port|host\.name|zookeeper\.connect.*"
    r"|(reserved\.)?broker\.(id|rack).*|advertised\..*|metadata\.log\.dir|log\.dirs?"
)
SECURITY = re.compile(
    r"ssl\..*|sasl\..*|security\..*|.*\.(ssl|sasl)\..*|password\..*|super\.users|authorizer\..*"
    r"|principal\..*|delegation\..*|allow\.everyone\..*|connections\..*"
)
METRICS = re.compile(r"metric.*|kafka\.metrics.*|auto\.include\.jmx\.reporter")
#: The connection of a client.
_CONNECTION = re.compile(r"bootstrap\.(servers|controllers)|metadata\.broker\.list|client\.id")
#: How workers of Connect are found, and where they find their classes.
_OF_WORKERS = re.compile(
    r"rest\..*|access\.control\..*|response\.http\..*|plugin\..*|application\.server"
)


@dataclass(frozen=True, slots=True)
class Unused:
    """A setting of a file that an answer does not use.

    reason: why. by: the line that outranks it, if one does.
    """

    key: str
    value: str
    source: FileLine
    reason: Reason
    by: FileLine | None = None

    def document(self) -> dict[str, str]:
        """Return it as `--json` prints it."""
        return {
            "setting": self.key,
            "value": self.value,
            "source": str(self.source),
            "reason": self.reason.name.lower(),
            "text": f"outranked by {self.by}" if self.by else self.reason.value,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Uses:
    """What an answer used of the settings with known names, and what it did not, in their order."""

    used: tuple[Stated, ...] = ()
    unused: tuple[Unused, ...] = ()

    def by_reason(self) -> Mapping[Reason, list[Unused]]:
        """Return the unused settings of each reason; those of no effect come last."""
        found: dict[Reason, list[Unused]] = {}
        for one in self.unused:
            found.setdefault(one.reason, []).append(one)
        return {reason: found[reason] for reason in Reason if reason in found}


#: Why a setting is not used, or the line that outranks it; None if it is used.
Why = Reason | FileLine | None


def uses(stated: Iterable[Stated], reason_of: Callable[[Stated], Why]) -> Uses:
    """Divide what files state. A setting that one line states twice is used if one of them is."""
    used: list[Stated] = []
    reasons: dict[tuple[str, FileLine], tuple[Stated, Reason | FileLine]] = {}
    for one in dict.fromkeys(stated):
        if reason := reason_of(one):
            reasons.setdefault((one.key, one.source), (one, reason))
        else:
            used.append(one)
    places = {(one.key, one.source) for one in used}
    return Uses(
        used=tuple(used),
        unused=tuple(
            _unused(one, reason) for place, (one, reason) in reasons.items() if place not in places
        ),
    )


def _unused(one: Stated, why: Reason | FileLine) -> Unused:
    by = why if isinstance(why, FileLine) else None
    reason = Reason.OUTRANKED if isinstance(why, FileLine) else why
    return Unused(one.key, one.value, one.source, reason, by)


def of_audit(
    clusters: Sequence[OwnConfig],
    lookups: Lookups,
    *,
    stated: Iterable[Stated],
    topic: str,
    refused: bool,
) -> Uses:
    """Return what an audit used of its files.

    clusters: those that it answers about. stated: the settings of all files. lookups: those of the
    rules. topic: the only one that it answers about; '' for all. refused: whether it answers only
    that the configuration is refused.
    """
    asked = {bearer: set(names) for bearer, names in lookups.of.items()}
    for own in clusters:
        asked["broker"] |= own.asked
        asked["controller"] |= own.asked
    in_force = _in_force(clusters, topic)
    taken = {(bearer, key) for bearer, key, _ in in_force}
    elsewhere = Elsewhere(clusters)
    releases = {own.release for own in clusters}
    release = releases.pop() if len(releases) == 1 else ""

    answered = {one for own in clusters for one in own.stated}
    outranked = {place: by for own in clusters for place, by in own.outranked.items()}
    by_topics = _by_topics(clusters, topic)

    def replaced(one: Stated) -> Why:
        """Return why another value counts; None if this one does."""
        if one.bearer in ("broker", "controller"):
            return outranked.get((one.key, one.source)) or by_topics.get(one.key)
        if (one.bearer, one.key, one.source) in in_force:
            return None
        return Reason.OTHER_FILE if (one.bearer, one.key) in taken else Reason.NOT_CHOSEN

    unread = {one for own in clusters for file in own.refused for one in file.stated}

    def reason_of(one: Stated) -> Why:
        if one in unread:
            return Reason.FILE_REFUSED
        if one not in answered:
            return Reason.NOT_CHOSEN
        if one.bearer in ("", "count"):
            return elsewhere.reason(one)
        if why := replaced(one) or _of_others(one):
            return why
        if one.key in asked[one.bearer] or ALIASES.get(one.key) in asked[one.bearer]:
            return None
        return by_name(one, release) or (Reason.REFUSED if refused else Reason.NO_RULE)

    return uses(stated, reason_of)


_Place = tuple[str, str, object]


def _in_force(clusters: Iterable[OwnConfig], topic: str) -> set[_Place]:
    """Return the settings of topics and clients that are left after files were combined."""
    found: set[_Place] = set()

    def add(bearer: str, settings: Settings) -> None:
        found.update((bearer, key, given.source) for key, given in settings.items())

    for own in clusters:
        for one in own.topics:
            if topic in ("", one.name) or one.name.startswith("__"):
                add("topic", one.settings)
        for client in own.producers:
            add("producer", client.settings)
        for client in own.consumers:
            add("consumer", client.settings)
    return found


def _by_topics(clusters: Iterable[OwnConfig], topic: str) -> dict[str, FileLine]:
    """Return brokers' settings that every topic replaces, with the line of the first topic.

    Those that topics have by the same name are also of Kafka's own topics.
    """
    answered = [one for own in clusters for one in own.topics if topic in ("", one.name)]
    common = set.intersection(*(set(one.settings) for one in answered)) if answered else set[str]()
    return {
        name: given.source
        for key, given in (answered[0].settings.items() if answered else ())
        if key in common and isinstance(given.source, FileLine)
        for name in setting_names(key)[1:]
    }


#: Names of charts, operators and of Amazon MSK that may bear on records and are none of Kafka's.
_OF_CHARTS: Mapping[Reason, str] = {
    Reason.PLACEMENT: r"\w*[aA]ffinity(Preset\w*)?|topologySpreadConstraints|nodeSelector"
    r"|tolerations|oneReplicaPerNode|rackAssignment|brokerRackAssignment|rack"
    r"|az_distribution|client_subnets|BrokerAZDistribution|ClientSubnets",
    Reason.PODS: r"terminationGracePeriodSeconds|updateStrategy|podManagementPolicy|pdb"
    r"|podDisruptionBudget|rollingUpgradeConfig|disruptionBudget|hostNetwork",
    Reason.VOLUMES: r"(persistence|storage|volumes|persistent)\.(size|class|storageClass\w*"
    r"|deleteClaim|kraftMetadata|accessModes|existingClaim|overrides)|(data|log)VolumeCapacity"
    r"|volume_size|VolumeSize|logPersistence|persistentVolumeClaimRetentionPolicy|diskSize",
    Reason.ELSEWHERE: r"existing(Kraft)?(Secret|Configmap|ConfigMap)|extraEnvVars(CM|Secret)",
}
_CHART_NAMES = {
    reason: re.compile(rf"(?:.*?\.)?(?P<name>{names})(?P<more>\..*)?")
    for reason, names in _OF_CHARTS.items()
}
#: Parts of a chart that are no brokers or controllers of Kafka.
_NO_NODES = re.compile(
    r"(.*\.)?(\w*zookeeper\w*|\w*[eE]xporter|metrics|cruiseControl|entityOperator|ui|kafkaUi|provisioning"
    r"|externalAccess|schemaRegistry|ksql\w*|logging|\w*tls|auth|sasl|rbac|serviceAccount)\..*"
)


@cache
def chart_name(path: str) -> str:
    """Return the name of a chart's own with which a path of its values begins or ends, else ''."""
    if _NO_NODES.fullmatch(path):
        return ""
    matches = (pattern.fullmatch(path) for pattern in _CHART_NAMES.values())
    return next((match["name"] for match in matches if match), "")


def _of_chart(name: str) -> Reason | None:
    return next((of for of, one in _CHART_NAMES.items() if one.fullmatch(name)), None)


class Elsewhere:
    """Says why no reader took a setting that stands in a file."""

    def __init__(self, clusters: Iterable[OwnConfig]) -> None:
        self._taken = {
            (one.key, one.source.file) for own in clusters for one in own.stated if one.bearer
        }

    def reason(self, one: Stated) -> Reason | None:
        if one.bearer == "count":
            return None
        if without_effect(one.key):
            return Reason.NO_EFFECT
        if not has_value(one.key, one.value):
            return Reason.NO_VALUE
        if of_chart := _of_chart(one.key):
            return of_chart
        if of_framework(one.key):
            return Reason.ADMIN if OF_ADMIN.match(one.key) else Reason.NOT_MODELLED
        taken = (one.key, one.source.file) in self._taken
        return Reason.OTHER_PLACE if taken else Reason.NOT_READ


@cache
def without_effect(key: str) -> bool:
    """Whether a setting is of addresses, folders, security or metrics."""
    return any(one.fullmatch(key) for one in (NODES, SECURITY, METRICS, _CONNECTION, _OF_WORKERS))


def by_name(one: Stated, release: str) -> Reason | None:
    """Return why a setting is of no use that a reader took and no rule reads; None if unknown."""
    if other := _of_others(one):
        return other
    if without_effect(one.key):
        return Reason.NO_EFFECT
    of_client = one.bearer in ("producer", "consumer")
    newer = release and not of_client and ignored(_SCOPES[one.bearer], one.key, release)
    return Reason.VERSION if newer else None


#: Where Kafka looks up the names of what a reader took.
_SCOPES: Mapping[Bearer, Scope] = {
    "broker": "broker",
    "controller": "broker",
    "topic": "topic",
    "producer": "producer",
    "consumer": "consumer",
}


def _of_others(one: Stated) -> Reason | None:
    return _of_other_parts(one.bearer, one.key, one.value)


@lru_cache(maxsize=10_000)  # many topics state the same
def _of_other_parts(bearer: Bearer, key: str, value: str) -> Reason | None:
    """Return the reason if a setting is of a part that is not modelled, or of another kind."""
    if any(subject.has(key, value) for subject in SUBJECTS):
        return Reason.NOT_MODELLED
    of_client = bearer in ("producer", "consumer")
    if key in known(_SCOPES[bearer]) or (of_client and is_librdkafka(key)):
        return None
    return Reason.OTHER_KIND
