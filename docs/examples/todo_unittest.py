import unittest

from todo import Tasks

from pytest_task_service import Service


class TasksTest(unittest.TestCase):
    def test_a_stranger_sees_nothing(self):
        Tasks(self.service.base_url, self.service.token).add("Write the report")
        self.assertEqual(list(Tasks(self.service.base_url, self.service.stranger.token).all()), [])


def setUpModule():
    TasksTest.service = Service.start()
    unittest.addModuleCleanup(TasksTest.service.stop)
