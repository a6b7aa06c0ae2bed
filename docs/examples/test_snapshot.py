import pytest


@pytest.fixture(scope="module")
def report(task_service_running):
    task_service_running.reset()
    (id,) = task_service_running.load({"type": "task", "title": "Write the report"})
    with task_service_running.snapshot():
        yield id


def test_what_is_loaded_once_is_there_for_each_test(report, service):
    assert service.load({"type": "task", "title": "Proofread", "parentId": report})
