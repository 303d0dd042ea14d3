from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
from pydantic import TypeAdapter
from ruamel.yaml import YAML

from ackproof.errors import ScenarioError
from ackproof.scenario import shipped
from ackproof.scenario.loader import PATTERNS, dump, load, load_all
from ackproof.scenario.model import Scenario, json_schema

ROOT = Path(__file__).parents[4]
SCENARIOS = ROOT / "scenarios"
ACKS = (SCENARIOS / "acks.yaml").read_text()
_SETTING = "    broker.heartbeat.interval.ms: 500\n"


@pytest.fixture(scope="module")
def published() -> jsonschema.protocols.Validator:
    """The schema, checked once: checking it takes longer than validating all scenarios."""
    schema = json_schema()
    validator = jsonschema.validators.validator_for(schema)
    validator.check_schema(schema)
    return validator(schema)


@pytest.mark.parametrize("path", shipped.files(), ids=lambda path: path.name)
def test_every_shipped_scenario_matches_the_published_schema(
    path: Path, published: jsonschema.protocols.Validator
) -> None:
    published.validate(json.loads(json.dumps(YAML(typ="safe").load(path.read_text()))))


def test_the_committed_schema_is_current() -> None:
    committed = json.loads((ROOT / "docs" / "scenario.v1.json").read_text())
    assert committed == json_schema(), "run: ci/reference"


def test_every_pattern_of_a_key_has_words() -> None:
    core = json.dumps(TypeAdapter(Scenario).core_schema, default=str)
    patterns = {json.loads(one) for one in re.findall(r'"pattern": ("(?:[^"\\]|\\.)*")', core)}
    assert patterns == set(PATTERNS)


def test_a_matrix_is_one_scenario_for_each_configuration() -> None:
    none, one, everyone = load(SCENARIOS / "acks.yaml")
    assert [c.scenario.workload.settings.acks for c in (none, one, everyone)] == ["0", "1", "all"]
    assert none.varied == {"acks": 0}
    assert everyone.varied == {"acks": "all", "enable.idempotence": True}
    assert none.scenario.faults == everyone.scenario.faults


@pytest.mark.parametrize(
    "name",
    [
        "acks",
        "nemesis",
        "java-defaults",
        "librdkafka-versions",
        "guarantees/isolation",
        "visibility",
    ],
)
def test_a_stored_scenario_reads_back_as_itself(name: str, tmp_path: Path) -> None:
    for configured in load(SCENARIOS / f"{name}.yaml"):
        dump(configured.scenario, tmp_path / "scenario.yaml")
        (again,) = load(tmp_path / "scenario.yaml")
        assert again.scenario == configured.scenario


BAD = [
    # what is wrong, what it becomes, what the message must say
    ("target: leader of orders-0\n    # U", "target: leeder of orders-0\n    # U", "'leeder of"),
    ("fault: kill", "fault: kil", "did you mean 'kill'?"),
    ("fault: kill", "fault: fail_log_dir", "one log directory only: set cluster.log_dirs"),
    ("fault: kill", "fault: skew_clock\n    by: 90m", "set cluster.clock: adjustable"),
    ("fault: kill", "fault: skew_clock\n    by: 90y", "'90y' is not a duration"),
    ("fault: kill", "fault: power_loss\n    partitions: order-0", "there is no topic 'order'"),
    ("or_after: 5s", "or_aftr: 5s", "did you mean 'or_after'?"),
    ("tail: 2000", "tails: 2000", "did you mean 'tail'?"),
    ("topics:", "topcis:", "did you mean 'topics'?"),
    ("heal_after: 30s", "heal_after: 30x", "'30x' is not a duration"),
    ("3000 acked", "3000 ackd", "'3000 ackd' is not a condition"),
    ("3000 acked", "9000000 acked", "more than workload.records: 200000"),
    ("3000 acked", "after 1s or 9000000 acked", "more than workload.records: 200000"),
    ("{acks: 1}", "{acks: 3}", "3 is not a value of acks (0, 1 or all)"),
    ("{acks: 1}", "{acks: 1, enable.idempotence: true}", "needs acks: all, not acks: 1"),
    (": true}", ": true, retries: 0}", "needs retries above 0"),
    (
        ": true}",
        ": true, max.in.flight.requests.per.connection: 6}",
        "of at most 5, not 6",
    ),
    (": true}", ": true, bootstrap.servers: x}", "bootstrap.servers is set by ackproof"),
    ("partitions: 3", "partitions: 2000", "it must be at most 1,000, not 2000"),
    ("partitions: 3", "partitions: three", "'three'"),
    ("replication_factor: 3", "replication_factor: 4", "4 replicas need as many brokers"),
    ("target: leader of orders-0\n    when", "target: 9\n    when", "there is no broker 9"),
    ("target: leader of orders-0\n    when", "target: rack x\n    when", "no broker is in rack x"),
    ("isr of orders-0", "isr of orders-7", "orders has partitions 0 to 2, not 7"),
    ("isr of orders-0", "isr of order-0", "there is no topic 'order'"),
    ("topic: orders", "topic: order", "'order' is not a topic here (orders)"),
    ("seed: 1", "kafka: 4.3", "4.3"),
    ("loss: some", "availability: 90 or so", "share of the run such as '>= 99%'"),
    ("loss: some", "loss: much", "must be 'none', 'some' or 'any', not 'much'"),
    ("loss: some", "stopped: some", "workload.may_stop_for: name one there"),
    ("loss: some", "steps: {alone: {readable: true}}", "set workload.probe to true"),
    ("loss: some", "follower_fetch: none", "give a group this setting"),
    (": true}", ": true, linger.mss: 4}", "linger.mss"),
    (": true}", ": true, compression.type: bogus}", "librdkafka refuses this: Invalid"),
    (": true}", ": true, request.required.acks: 1}", "another name of acks"),
    (": true}", ": true, debug: [a]}", "workload.settings.debug: it must be text, a number"),
    ("min.insync.replicas: 2", "min.insync.replicas: two", "a whole number from 1"),
    ("min.insync.replicas: 2", "cleanup.policy: compact", "compaction removes"),
    (
        _SETTING,
        f"{_SETTING}    min.insync.replicas: 2\n",
        "move it to topics.NAME.settings",
    ),
    (_SETTING, f"{_SETTING}    replica.lag.time.max.ms: soon\n", "'soon'"),
    ("topics:\n  orders", "topics:\n  or ders", "is not a topic name"),
    ("seed: 1", 'kafka: "0.9.0.1"', "too old"),
    ("rate: 1500/s", "rate: 0/s", "it must be above 0, not 0.0"),
    ("{acks: 0}", "{acks: 0}\n    name: other", "cannot differ"),
    ("name: acks\n", "name: acks\nname: acks\n", "duplicate key"),
    ("rate: 1500/s", "rate: fast", "'fast' is not a rate"),
    ("size: 200", "size: 8", "it must be at least 32, not 8"),
    (_SETTING, f"{_SETTING}    node.id: 7\n", "node.id is set by ackproof"),
    ("workload:\n  topic", "work: 1\nworkload:\n  topic", "'work' is not a key here"),
]


@pytest.mark.parametrize(("right", "wrong", "expected"), BAD, ids=[wrong for _, wrong, _ in BAD])
def test_an_error_is_reported_with_file_line_and_reason(
    right: str, wrong: str, expected: str, tmp_path: Path
) -> None:
    assert right in ACKS
    path = tmp_path / "bad.yaml"
    path.write_text(ACKS.replace(right, wrong, 1))
    with pytest.raises(ScenarioError) as refusal:
        load(path)
    message = str(refusal.value)
    assert expected in message
    at = path.read_text()[: path.read_text().index(wrong)].count("\n") + 1
    # A condition that cannot be read is reported at the key that holds the list.
    lines = range(at - 1, at + wrong.count("\n") + 2)
    assert any(f"{path}:{line}:" in message for line in lines), message


def _blocks(tmp_path: Path, faults: str, *more: str) -> Path:
    """Write a scenario with these faults, in lines that begin where the file's own lines end."""
    head = ACKS.split("faults:")[0]
    path = tmp_path / "blocks.yaml"
    path.write_text(f"{head}{''.join(more)}faults:\n{faults}")
    return path


BAD_BLOCKS = [
    (
        "  - parallel:\n      - {fault: kill, target: 1}\n      - {fault: kil, target: 2}\n",
        3,
        "faults.0.parallel.1.fault: 'kil' is not a fault",
    ),
    (
        "  - sequence:\n      - {fault: kill, target: 1}\n      - {fault: kill, target: 9}\n",
        3,
        "faults.0.sequence.1.target: there is no broker 9",
    ),
    (
        "  - sequence: [{fault: kill, target: 1}]\n    often: 3\n",
        2,
        "'often' is not a key here (sequence, repeat, every, for, until, probability)",
    ),
    ("  - sequence: [{fault: kill, target: 1}]\n    evry: 3\n", 2, "did you mean 'every'?"),
    (
        "  - one_of:\n    - {fault: kill, target: 1}\n    - {fault: kill, targt: 1}\n",
        3,
        "did you mean 'target'?",
    ),
    ("  - {when: 5 acked}\n", 1, "a block of steps one of sequence, parallel, one_of, random"),
    ("  - {fault: kill, target: 1, when: cut began}\n", 1, "no fault with the name or id 'cut'"),
    ("  - {fault: kill, target: 1, when: after 5m}\n", 1, "not within workload.seconds: 120"),
    ("  - {fault: kill, target: 1, when: leader of orders-0 == 7}\n", 1, "there is no broker 7"),
    ("  - {fault: kill, target: 1, when: epoch of orders-9 == 7}\n", 1, "partitions 0 to 2"),
    ("  - {fault: kill, target: any 4 brokers}\n", 1, "cluster.brokers is 3"),
    ("  - {fault: kill, target: minority of controllers}\n", 1, "one controller has no minority"),
    (
        "  - {fault: kill, target: 1}\n  - {fault: kill, target: 1}\n",
        2,
        "would undo kill of broker 1",
    ),
    ("  - {fault: reassign, topic: other, to: [1]}\n", 1, "there is no topic 'other'"),
    ("  - {fault: add_partitions, topic: orders}\n", 1, "partitions: is missing"),
    (
        "  - {fault: link, target: 1, api: Produce, direction: response, action: cut}\n",
        1,
        "'link' needs a listener behind the Kafka proxy",
    ),
    ("  - {fault: crash_client, client: producer 9}\n", 1, "there is no producer 9"),
    ("  - {fault: pause_client, client: consumers}\n", 1, "there are no consumers"),
    ("  - {fault: purge_client, client: consumers}\n", 1, "producers"),
    ("  - {fault: pause_client, client: all}\n", 1, "'all'"),
    ("  - {fault: remove_controller}\n", 1, "there is one controller only"),
    ("  - {fault: remove_controller, target: 1}\n", 1, "'broker 1' is not a controller"),
    ("  - {fault: upgrade_feature, feature: transaction.version, level: 0}\n", 1, "level"),
    ("  - {fault: link, target: 1, api: Fetsch, direction: response, action: cut}\n", 1, "'Fetch'"),
]


@pytest.mark.parametrize(("faults", "line", "expected"), BAD_BLOCKS, ids=[b[2] for b in BAD_BLOCKS])
def test_an_error_in_a_block_is_reported_with_its_line(
    faults: str, line: int, expected: str, tmp_path: Path
) -> None:
    path = _blocks(tmp_path, faults)
    begins = path.read_text().split("\n").index("faults:") + 1
    with pytest.raises(ScenarioError) as refusal:
        load(path)
    assert expected in refusal.value.message
    assert f"{path}:{begins + line}: " in refusal.value.message


LINK = "fault: link, direction: response, action: hold"
RESET = "fault: reset_offsets, topic: orders, to: latest"
END = "{fault: crash_client, client:"
CUT = "fault: partition, target: 1, peers"
LAG = "fault: kill, target: 1, when: lag of broker 3 on orders-0 == 0"
MOVED = f"{LAG}}}, {{fault: reassign, topic: orders, to: [1, 3]"


def of_listener(proxied: str) -> dict[str, str]:
    return {"cluster": f"{{listeners: [LINK], proxied: [{proxied}]}}"}


@pytest.mark.parametrize(
    ("parts", "fault", "expected"),
    [
        # Listeners behind the proxy.
        (of_listener("LINK"), f"{LINK}, target: 1, api: AlterPartition", "needs CONTROLLER in cl"),
        (of_listener("LINK"), f"{LINK}, target: 1, api: WriteTxnMarkers", "needs INTERNAL in clu"),
        (of_listener("LINK"), f"{LINK}, target: active controller, api: Fetch", "needs CONTROLLER"),
        (of_listener("CONTROLLER"), f"{LINK}, target: 1, api: AlterPartition", "write 'active con"),
        (of_listener("OTHER"), f"{LINK}, target: 1, api: Fetch", "'OTHER' is not one of cluster.l"),
        ({"cluster": "{proxied: [INTERNAL]}"}, f"{CUT}: brokers", "INTERNAL leads through the Ka"),
        ({"cluster": "{proxied: [CONTROLLER]}"}, f"{CUT}: brokers", "CONTROLLER leads through t"),
        ({"cluster": "{proxied: [INTERNAL]}"}, f"{CUT}: clients", ""),
        ({"cluster": "{proxied: [CONTROLLER]}"}, f"{CUT}: clients", ""),
        # Brokers that need not have a replica.
        ({"topic": "assignment: [[1, 2]]"}, LAG, "orders-0 (they are on [1, 2]"),
        ({"topic": "replication_factor: 2"}, LAG, "Kafka chooses the brokers): set topics.orders"),
        ({"topic": "assignment: [[1, 3]]"}, LAG, ""),
        ({"topic": "replication_factor: 3"}, LAG, ""),
        ({"topic": "assignment: [[1, 2]]"}, MOVED, ""),
        # Clients that cannot show it, and too many brokers.
        ({"workload": "transactions: {}"}, "fault: fill_buffer", "its buffer never fills"),
        ({"workload": "consumers: {g: {via: assign}}"}, "fault: rebalance_storm", "no group reba"),
        (
            {"workload": "consumers: {g: {via: share}, h: {via: subscribe}}"},
            "fault: rebalance_storm",
            "consumer 0 is assigned or shares its partitions",
        ),
        (
            {"workload": "consumers: {g: {via: share}, h: {via: subscribe}}"},
            "fault: rebalance_storm, client: consumer 1",
            "",
        ),
        (
            {"workload": "consumers: {g: {members: 2}}"},
            "fault: crash_client, client: consumer 2",
            "0 to 1",
        ),
        # Kafka changes the offsets of a group without members only: 0 is of a, 1 and 2 are of b.
        *(
            (
                {"workload": "consumers: {a: {}, b: {members: 2}}"},
                f"{RESET}, group: {group}" + "".join(f"}}, {END} {one}" for one in ended),
                spared
                and f"no fault ends {spared}: add {{fault: crash_client, client: consumers}}",
            )
            for group, ended, spared in (
                ("a", ["consumers"], ""),
                ("a", ["consumer 0"], ""),
                ("a", ["consumer 1", "consumer 2"], "consumer 0 of a"),
                ("b", ["consumers"], ""),
                ("b", ["consumer 1", "consumer 2"], ""),
                ("b", ["consumer 2"], "consumer 1 of b"),
                ("b", ["consumer 0"], "consumer 1, consumer 2 of b"),
                ("b", ["producers"], "consumer 1, consumer 2 of b"),
            )
        ),
        (
            {"blast_radius": "{brokers: minority}"},
            "fault: kill, target: [1, 2]",
            "hits 2 brokers, and blast_radius.brokers allows 1",
        ),
    ],
)
def test_a_fault_that_cannot_have_its_effect_is_refused(
    loaded, refused, parts: dict[str, str], fault: str, expected: str
) -> None:
    keys = {"cluster": "{}", "blast_radius": "{}", **parts}
    text = (
        f"version: 1\nname: small\ncluster: {keys['cluster']}\n"
        f"blast_radius: {keys['blast_radius']}\ntopics: {{orders: {{{keys.get('topic', '')}}}}}\n"
        "workload:\n  topic: orders\n  settings: {acks: all, enable.idempotence: true}\n"
        f"  {keys.get('workload', '')}\nfaults: [{{{fault}}}]\n"
    )
    assert expected in refused(text) if expected else loaded(text)


def test_an_anchor_may_name_two_places(tmp_path: Path) -> None:
    path = tmp_path / "twice.yaml"
    text = (SCENARIOS / "acks-all.yaml").read_text()
    path.write_text(text.replace("name: ", "name: &a ", 1).replace("version: ", "version: &a ", 1))
    assert load(path)[0].scenario.name == "acks-all"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (SCENARIOS / "acsk.yaml", r"Did you mean .*acks\.yaml"),
        (Path("akcs"), r"akcs: no such scenario file\. Did you mean acks\?"),
        (ROOT / "reference_model", "holds no scenario file"),
    ],
)
def test_a_path_without_a_scenario_is_refused(path: Path, expected: str) -> None:
    with pytest.raises(ScenarioError, match=expected):
        load_all(path) if path.is_dir() else load(path)


HEAD = ACKS[: ACKS.index("matrix:")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((f"{HEAD}matrix: {none}\n", "names of config") for none in ("[]", "", "{}", "3")),
        *((text, "a scenario is a mapping") for text in ("", "- a\n", "just words\n")),
        ("!!omap [ {{a: 1}: 2} ]\n", "not valid YAML: unhashable"),
        ("version: 1\nname: [x\ntopics: {}\n", "yaml:3: not valid YAML: column 7: expected"),
        ("services: {kafka: {image: apache/kafka}}\n", "this is no scenario"),
        ("services: {kafka: {image: apache/kafka}}\n", "`ackproof audit FILE`"),
    ],
)
def test_a_text_that_is_no_scenario_is_refused(refused, text: str, expected: str) -> None:
    assert expected in refused(text)
