"""JUnit XML: what is legal in it, and the numbers that its suites state."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def cleaned(text: str) -> str:
    """Return the text without characters that XML does not allow."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def document(root: ET.Element) -> bytes:
    """Return the suites in `root` with their numbers of tests, failures and errors."""
    for suite in root:
        cases = suite.findall("testcase")
        for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(key, str(sum(case.find(tag) is not None for case in cases)))
        suite.set("tests", str(len(cases)))
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ET.indent(root)
    content: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return content
