"""No product code decides by the words of a text of ours: a fact is data until it is shown.

The syntax tree shows where a text is compared with a sentence, searched for words, or cut at them.
Rooms that read other people's text may do so (`READS`), and so may single places with a reason
(`ALLOWED`).
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("harness", "faults", "reference_model", "spark_analysis")

_PREFIXES = {"startswith", "endswith", "removeprefix", "removesuffix"}
_CUTS = {"split", "rsplit", "partition", "rpartition"}
_CASES = {"isupper", "islower", "istitle"}
#: Signs of a sentence. Others (`/ . - = +`, line ends) are those of paths, versions and names.
_SIGNS = {":", ",", ";", "(", ")", " "}
#: Of a pattern: what stands for characters of a class, and flags.
_ESCAPES = re.compile(r"\\.|\(\?(P<\w+>|[a-zA-Z]+\)?)|\[[^\]]*\]")
_PLAIN_WORDS = re.compile("[A-Za-z][A-Za-z ,:=]*")
_PATTERN_OF_WORDS = re.compile("[A-Za-z]{3}.* |.* [A-Za-z]{3}", re.DOTALL)

#: The constants of a module that are texts, by their names.
Constants = Mapping[str, ast.expr]


def decisions(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the kind and the source of each decision that a text's words take."""
    constants = {
        name.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value
        for name in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(name, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            kind = _of_call(node, node.func, constants)
        elif isinstance(node, ast.Compare):
            kind = _of_comparison(node, constants)
        else:
            continue
        if kind:
            yield node.lineno, kind, ast.unparse(node)


def _of_call(call: ast.Call, method: ast.Attribute, constants: Constants) -> str:
    texts = [text for argument in call.args[:1] for text in _texts(argument, constants)]
    words = any(_PLAIN_WORDS.fullmatch(text.strip()) for text in texts)
    if isinstance(method.value, ast.Name) and method.value.id == "re":
        pattern = any(_PATTERN_OF_WORDS.search(_ESCAPES.sub("", text)) for text in texts)
        return "pattern" if pattern else ""
    if method.attr in _PREFIXES and words:
        return "prefix"
    if method.attr in _CUTS and (words or any(text.strip(" ") in {*_SIGNS, ""} for text in texts)):
        return "cut"
    if method.attr == "replace" and words:
        return "search"
    return "case" if method.attr in _CASES and isinstance(method.value, ast.Subscript) else ""


def _of_comparison(node: ast.Compare, constants: Constants) -> str:
    sides = [node.left, *node.comparators]
    for left, operator, right in zip(sides, node.ops, node.comparators, strict=False):
        if isinstance(operator, ast.In | ast.NotIn):
            if isinstance(right, ast.Constant) and re.search("[A-Za-z0-9]", str(right.value)):
                return "search"  # `value in "12"`
            if isinstance(left, ast.Constant) and any(map(_sentence, _texts(left, {}))):
                return "search"
        elif isinstance(operator, ast.Eq | ast.NotEq) and any(
            " " in text.strip() and _sentence(text)
            for side in (left, right)
            for text in _texts(side, constants)
        ):
            return "equality"
    return ""


def _sentence(text: str) -> bool:
    """Whether a text is words or a sign of a sentence, and no name of a setting or a key."""
    return text in _SIGNS or bool(
        re.fullmatch(r"[A-Z][a-z]+|.*[A-Za-z].* .*|.* .*[A-Za-z].*", text)
    )


def _texts(node: ast.expr | None, constants: Constants) -> list[str]:
    """Return the texts that an expression is or holds, through constants of the module."""
    match node:
        case ast.Constant(value=str() as text):
            return [text]
        case ast.JoinedStr(values=parts):
            return ["".join(text for part in parts for text in _texts(part, {}))]
        case (
            ast.Tuple(elts=parts)
            | ast.List(elts=parts)
            | ast.Set(elts=parts)
            | ast.Dict(values=parts)
        ):
            return [text for part in parts for text in _texts(part, constants)]
        case ast.Starred(value=part) | ast.Subscript(value=part):
            return _texts(part, constants)
        case ast.Name(id=name) if name in constants:
            return _texts(constants[name], {})
    return []


#: Decisions by sentences of ours that were in the product once, each of which gave or nearly gave a
#: wrong answer, with the kind that sees it.
FORMER = {
    'cell.partition(" with ")': "cut",
    'words = {1: ("CAN LOSE", "loses")}\ncell.startswith(words[1])': "prefix",
    '"or later" in cell': "search",
    '"Kafka" not in cell': "search",
    "cell[:3].isupper()": "case",
    'last.endswith("or later")': "prefix",
    'last.split(" ")': "cut",
    'when.get("kafka.version", "or later").endswith("or later")': "prefix",
    'source.startswith("default of ")': "prefix",
    're.match("default of (Kafka|librdkafka)", source)': "pattern",
    'source.rpartition(":")': "cut",
    'brokers.value in "12"': "search",
    'retries.source == f"default of {_CONNECT}"': "equality",
    'removal.reason.replace("may remove", "removes")': "search",
    '":" in given.source': "search",
    'reason.startswith("no producer")': "prefix",
    'acks.partition(" ")': "cut",
    'acks.removeprefix("acks=")': "prefix",
    'line.startswith("FINDING")': "prefix",
    'answer.text.startswith(("no", "-"))': "prefix",
    'answer.text.split(",")': "cut",
    'text == "keeps everything"': "equality",
    '"not modelled" not in predicted': "search",
    'step.startswith("lose power")': "prefix",
}


@pytest.mark.parametrize("source", FORMER)
def test_a_decision_by_words_is_seen(source: str) -> None:
    assert FORMER[source] in {kind for _, kind, _ in decisions(ast.parse(source))}


@pytest.mark.parametrize(
    "source",
    [
        'acks == "all"',
        '"min.insync.replicas" in settings',
        'key in ("acks", "retries")',
        'path.rpartition("/")',
        'key.startswith("retention.")',
        'name.removesuffix(".yaml")',
        '"INTERNAL" in listeners',
        "name.startswith(prefix)",
        're.fullmatch(r"\\d+", text)',
        "value.isdecimal()",
    ],
)
def test_data_are_no_words(source: str) -> None:
    assert list(decisions(ast.parse(source))) == []


#: Rooms and modules that read text which others wrote, and what it is.
READS = {
    "ackproof/advise/bundle.py": "the output of kafka-dump-log",
    "ackproof/advise/disks.py": "the file partition.metadata",
    "ackproof/advise/live.py": "the output of kafka-topics",
    "ackproof/advise/reassigning.py": "the output of kafka-topics",
    "ackproof/cli/usage_errors.py": "the messages of click and pydantic",
    "ackproof/clients/java_client.py": "the message of a shell",
    "ackproof/clients/librdkafka_wheel.py": "the output of pip",
    "ackproof/cluster/lifecycle.py": "the first lines of a broker's log",
    "ackproof/cluster/node.py": "the messages of the container engine",
    "ackproof/containers/": "the messages of the container engine and of Maven, names of images",
    "ackproof/observation/": "the logs and the metadata of brokers",
    "ackproof/own_config/clusters.py": "lists of addresses",
    "ackproof/own_config/containers.py": "the mounts and ports of containers",
    "ackproof/own_config/formats/": "people's configuration files",
    "ackproof/own_config/hcl.py": "the language of Terraform",
    "ackproof_faults/conditions/": "the language of conditions and targets in scenarios",
    "ackproof_faults/disk/": "the output of du and dd in a container",
    "ackproof_faults/network/slowed.py": "the output of tc and nft, and their rules",
    "ackproof_spark/forensics/terms.py": "the lines of a leader's log",
    "ackproof_spark/live/": "the messages of Spark and librdkafka",
    "ackproof_spark/reading/final_log.py": "the messages of Spark",
    "ackproof_spark/spark/": "the messages of Spark, Ivy and Java",
}
_PYDANTIC = "pydantic's message, after its own prefix"
_WORD = "one of the words of its type, which are data"
_LIST = "a list that a user wrote"
_ADDRESS = "the address of a Spark master or of a file"
#: Single places that may, with the reason: `module: source`.
ALLOWED = {
    "ackproof/advise/screen.py: text == 'keeps everything'": _WORD,
    "ackproof/cli/advise_input.py: 'payload: ' not in evidence.dump": "kafka-dump-log's output",
    "ackproof/cli/advise_input.py: text.split(',')": _LIST,
    "ackproof/cli/runs.py: 'too few runs' in judged": _WORD,
    "ackproof/cli/warehouse.py: spark.startswith('local')": _ADDRESS,
    "ackproof/cluster/group_offsets.py: re.compile('Error: (.*)', re.DOTALL)": "a tool's output",
    "ackproof/cluster/preflight.py: text.split(',')": "the value of a broker's setting",
    "ackproof/cluster/security.py: name == _AUTHORITY": "the name of a key that is made here",
    "ackproof/comparison/summary.py: item.times == 'at most'": _WORD,
    "ackproof/errors.py: package.startswith('ackproof')": "the name of a Python package",
    "ackproof/judgement/judge.py: times == 'at most'": _WORD,
    "ackproof/judgement/overview/losses.py: row[name].split(',')": "ids in a column of a table",
    "ackproof/judgement/overview/safer.py: foreseen.get(_LOST) == 'not modelled'": _WORD,
    "ackproof/ledger/log_lines.py: str(first['msg']).removeprefix('Value error, ')": _PYDANTIC,
    "ackproof/machine.py: some.rpartition('total=')": "a file of the kernel",
    "ackproof/own_config/combining.py: key.startswith(('advertised.', 'listener', 'inter.broker', "
    "'log.dir', 'controller.'))": "names of settings",
    "ackproof/own_config/combining.py: ',' in lists[0].value": "a list of addresses",
    "ackproof/own_config/parts.py: ':' not in self.text": "a user's file",
    "ackproof/own_config/parts.py: stated.split(',')": _LIST,
    "ackproof/prediction/exact.py: fault.target.role == 'majority of controllers'": _WORD,
    "ackproof/report/ci.py: verdict.metrics.times == 'at most'": _WORD,
    "ackproof/own_config/storage.py: stated.value.split(',')": "the folders of `log.dirs`",
    "ackproof/report/comparison.py: cell.configuration.split(', ')": "a name that a user may give",
    "ackproof/report/formatting.py: ',' in name": "a name that a user may give",
    "ackproof/report/recommendation.py: 'not modelled' not in "
    "[step.predicted for step in safer.steps]": _WORD,
    "ackproof/report/recommendation.py: 'Kafka' in step.changes": "the key of a change",
    "ackproof/report/wording.py: verdict.metrics.times == 'at most'": _WORD,
    "ackproof/report/wording.py: cause.case.startswith('B')": "the number of a case",
    "ackproof/runs/directory.py: first['msg'].removeprefix('Value error, ')": _PYDANTIC,
    "ackproof/scenario/cluster_kinds.py: target.role == 'minority of controllers'": _WORD,
    "ackproof/scenario/loader.py: error['msg'].removeprefix('Value error, ')": _PYDANTIC,
    "ackproof/scenario/loader.py: context['expected_tags'].split(',')": "pydantic's list of tags",
    "ackproof/scenario/validation.py: protocol.upper().endswith('SSL')": "a protocol of Kafka",
    "ackproof_faults/clients.py: self.client.partition(' ')": "the client that a scenario names",
    "ackproof_faults/clients.py: self.client.startswith('producer')": "the client of a scenario",
    "ackproof_faults/clients.py: noun.startswith('producer')": "the client of a scenario",
    "ackproof_model/adversary/workers.py: kind == 'stored levels'": "a request of this module",
    "ackproof_model/adversary/workers.py: line.startswith('VmHWM')": "a file of the kernel",
    "ackproof_model/effects.py: self.key.startswith(_HARMLESS)": "names of settings",
    "ackproof_model/validation/metadata_replay.py: step != _CREATED": "a kind of step",
    "ackproof_spark/checks/reads.py: F.col('reader') == _PROBE": "the name of a reader in a table",
    "ackproof_spark/matching/offset_pass.py: "
    "compared.sparkSession.sparkContext.master.startswith('local')": _ADDRESS,
    "ackproof_spark/warehouse/schemas.py: line.partition(': ')": "the lines of a SQL file",
    "ackproof_spark/warehouse/views.py: query.partition('SELECT')": "a SQL file",
}


def product() -> dict[str, list[str]]:
    """Return the sources of all decisions by words, by the path of their module."""
    return {
        str(path.relative_to(ROOT / source)): found
        for source in SOURCES
        for path in sorted((ROOT / source).rglob("*.py"))
        if (found := [text for _, _, text in decisions(ast.parse(path.read_text("utf-8")))])
    }


def test_no_product_code_decides_by_words() -> None:
    places = Counter(
        f"{module}: {text}"
        for module, found in product().items()
        if not module.startswith(tuple(READS))
        for text in found
    )
    assert places.keys() - ALLOWED.keys() == set(), "make the fact data, or give the reason here"
    assert ALLOWED.keys() - places.keys() == set(), "exceptions that are no longer needed"


def test_every_room_that_reads_is_there() -> None:
    modules = product()
    assert [room for room in READS if not any(name.startswith(room) for name in modules)] == []
