"""Take the pictures that the pages show, with the test double and Chromium: ``make pictures``."""

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from support.chromium import Chromium
from support.project import PROJECT

from pytest_task_service import Service

# The title and the day from today.
TASKS = {
    "Send the offer to Globex": -1,
    "Read the applications": 0,
    "Book a room for the workshop": 2,
    "Renew the certificate": 5,
    "Tidy up the backlog": None,
}


HIDE_TOKEN = r"""
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  texts.currentNode.data = texts.currentNode.data.replace(/tmw_api_\w+/, "tmw_api_…");
}
"""


class Files(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def take_tasks(browser, service, page):
    browser.open(page, 640, 480)
    browser.run(f"document.forms.enter.service.value = {json.dumps(service.origin)}")
    browser.run(f"document.forms.enter.token.value = {json.dumps(service.token)}")
    browser.run("document.querySelector('#enter button').click()")
    browser.until(f"document.querySelectorAll('li').length === {len(TASKS)}")
    height = browser.run("document.body.getBoundingClientRect().bottom + 16")
    browser.picture(PROJECT / "docs/tasks.png", 0, 0, 640, height)


def take_reference(browser, service):
    browser.open(f"{service.origin}/docs/#/tasks/listTasks", 1000, 1400)
    browser.until("document.querySelector('.opblock.is-open .execute')")
    browser.run(f"ui.preauthorizeApiKey('bearer', {json.dumps(service.token)})")
    browser.run("document.querySelector('.opblock.is-open .execute').click()")
    browser.until("document.querySelector('.live-responses-table .response-col_status')")
    browser.run(HIDE_TOKEN)
    place = "document.querySelector('{}').getBoundingClientRect().top + scrollY"
    top = browser.run(place.format(".opblock.is-open"))
    end = browser.run(place.format(".live-responses-table"))
    browser.picture(PROJECT / "docs/reference.png", 0, top, 1000, end - top + 360)


def main():
    files = partial(Files, directory=PROJECT / "docs/examples")
    with ThreadingHTTPServer(("127.0.0.1", 0), files) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        origin = f"http://127.0.0.1:{server.server_port}"
        service = Service.start(environment={"CORS_ORIGINS": origin, "DOCS": "on"})
        service.origin = service.base_url.removesuffix("/api")
        try:
            today = datetime.now(UTC).date()
            service.load(
                *(
                    {
                        "type": "task",
                        "title": title,
                        "assigneeId": service.user.id,
                        **({} if days is None else {"dueDate": str(today + timedelta(days=days))}),
                    }
                    for title, days in TASKS.items()
                )
            )
            with Chromium() as browser:
                take_tasks(browser, service, f"{origin}/tasks.html")
                take_reference(browser, service)
        finally:
            service.stop()
            server.shutdown()


if __name__ == "__main__":
    main()
