"""The npm package knows what the double knows: faults, the line, the variables."""

import json
import re

import pytest
from support.project import read

from pytest_task_service.process import PASSED
from task_service_double import faults
from task_service_double.bodies import NextFault

pytestmark = pytest.mark.nodatabase

TYPES = read("testkit/node/index.d.ts")


def members(interface):
    body = re.search(rf"(?s)interface {interface} {{\n(.*?)\n}}", TYPES)[1]
    return re.findall(r"(?m)^  (\w+)\b", body)


def test_the_types_name_every_kind_of_fault_and_every_option_of_a_fault():
    kinds = re.search(r"(?s)type FaultKind =(.*?);", TYPES)[1]
    assert tuple(re.findall('"(.*?)"', kinds)) == faults.KINDS
    options = {field.data_key for field in NextFault().fields.values()}
    assert set(members("FaultOptions")) == options - {"kind"}


def test_the_types_name_every_member_of_the_line_of_dev_json(service):
    line = json.loads(service.process.line)
    # The package calls the base URL ``url``.
    assert {*line} - {"baseUrl"} == {*members("Service")} & {*line}
    assert set(members("User")) == line["user"].keys()
    assert set(members("Workspace")) == line["workspace"].keys()


def test_the_npm_package_and_the_pytest_plugin_pass_the_same_variables_to_the_double():
    listed = re.search(r"PASSED = \[(.*?)\]", read("testkit/node/index.mjs"))[1]
    assert tuple(re.findall('"(.*?)"', listed)) == PASSED
