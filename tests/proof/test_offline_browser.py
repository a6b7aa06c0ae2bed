"""docs/examples/outbox.mjs in a browser: tabs share an outbox while the network is cut."""

import json
import os
import random
import threading
from collections import defaultdict
from contextlib import closing

import pytest
from support.chromium import Chromium
from support.feeds import events, tasks
from support.processes import call, serving
from support.project import PROJECT, blocks, replaced
from support.proxy import CuttingProxy, Proxy
from support.receivers import Receiver, answer
from support.rows import TOKENS

pytestmark = [pytest.mark.proof, pytest.mark.needs("chromium")]

# Keeps the page and its script, as offline apps do, so that a reload needs no network.
WORKER = """
const files = ["/", "/outbox.mjs"];
const keep = async () => (await caches.open("app")).addAll(files);
oninstall = (event) => event.waitUntil(keep().then(() => skipWaiting()));
onactivate = (event) => event.waitUntil(clients.claim());
onfetch = (event) => {
  const { pathname, origin } = new URL(event.request.url);
  if (origin === location.origin && files.includes(pathname)) {
    event.respondWith(caches.match(pathname));
  }
};
"""
KEPT = "navigator.serviceWorker?.controller"
# Each send of a tab has ended, so nothing is left to send.
IDLE = "(({ held, pending }) => !held.length && !pending.length)(await navigator.locks.query())"
# The lines that the page has logged, by the tab that logged them.
TOLD = """
window.told = [];
console.log = (...line) => told.push(line);
"""


def page(script):
    return (
        f"<!doctype html><input><script>{TOLD}navigator.serviceWorker.register('/worker.js');"
        f"</script><script type=module>{script}</script>"
    )


def site(script):
    """Return the behaviour of a server that has a page with this script, and the outbox."""
    files = {
        "/": (page(script), "text/html"),
        "/outbox.mjs": ((PROJECT / "docs/examples/outbox.mjs").read_text(), "text/javascript"),
        "/worker.js": (WORKER, "text/javascript"),
    }

    def behave(handler):
        content, kind = files.get(handler.path, ("", "text/plain"))
        answer(200, content.encode(), Content_Type=f"{kind}; charset=utf-8")(handler)

    return behave


class Tab:
    """A tab of the browser; the browser must run."""

    def __init__(self, chromium, url):
        self.chromium, self.url = chromium, url
        chromium.session = {}
        self.target = chromium.send("Target.createTarget", url="about:blank")["targetId"]
        attached = chromium.send("Target.attachToTarget", targetId=self.target, flatten=True)
        self.session = {"sessionId": attached["sessionId"]}
        self.load()

    def run(self, script):
        self.chromium.session = self.session
        return self.chromium.run(script)

    def put(self, kind, **item):
        self.run(f"outbox.put({json.dumps(kind)}, {json.dumps(item)})")

    def send(self):
        """Begin to send."""
        self.run("void outbox.send(console.log)")

    def until(self, condition):
        self.chromium.session = self.session
        self.chromium.until(condition)

    def load(self):
        """Load the page, or load it again."""
        self.chromium.session = self.session
        self.chromium.send("Page.navigate", url=self.url)
        self.until(f"{KEPT} && document.readyState === 'complete'")

    def close(self):
        self.chromium.session = {}
        self.chromium.send("Target.closeTarget", targetId=self.target)


@pytest.fixture
def chromium():
    with Chromium() as chromium:
        yield chromium


@pytest.fixture
def origin():
    with closing(Receiver()) as origin:
        yield origin


@pytest.fixture
def port(database_url, unlimited, origin):
    with serving(database_url, CORS_ORIGINS=f"http://127.0.0.1:{origin.port}") as server:
        yield server.port


@pytest.fixture
def history(port):
    """Return a function that returns the titles that each task got since the beginning of the test.

    Each is in the order of the versions, which nothing else has made.
    """
    _, beginning = call(port, "GET", "/api/events", TOKENS["alice"])

    def history():
        found = defaultdict(list)
        for event in events(port, TOKENS["alice"], beginning["nextCursor"]):
            found[event["data"]["id"]].append(event["data"])
        for versions in found.values():
            assert [task["version"] for task in versions] == [*range(1, len(versions) + 1)]
        return {id: [task["title"] for task in versions] for id, versions in found.items()}

    return history


def opener(chromium, origin, script):
    """Return a function that opens a tab with a page that has this script."""
    origin.behaves(site(script))
    url = f"http://127.0.0.1:{origin.port}/"
    chromium.open(url)
    chromium.run(f"localStorage.token = {json.dumps(TOKENS['alice'])}")
    chromium.until(KEPT)
    return lambda: Tab(chromium, url)


def test_what_the_example_on_the_page_stores_offline_in_two_tabs_is_sent_once_even_after_a_reload(
    chromium, origin, port, history
):
    (example,) = blocks("docs/sync.md", "js")
    with closing(Proxy(f"host=127.0.0.1 port={port}")) as network:
        script = replaced(
            example,
            ("http://127.0.0.1:8000", f"http://127.0.0.1:{network.port}"),
            ("localStorage.token,", "localStorage.token,\n  pause: 0.1,"),
        )
        open_tab = opener(chromium, origin, script)
        tabs = [open_tab(), open_tab()]
        titles = []

        def add(tab):
            titles.append(f"Task {len(titles) + 1}")
            tab.run(f"title.value = {json.dumps(titles[-1])}")
            tab.run("title.dispatchEvent(new Event('change'))")
            # It is stored.
            tab.until("title.value === ''")

        for tab in tabs:
            tab.run("window.title = document.querySelector('input')")
        add(tabs[0])
        tabs[0].until(IDLE)
        assert [*history().values()] == [titles]
        # From here on, no server can be reached.
        network.refuse()
        origin.close()
        for tab in tabs * 3:
            add(tab)
        for tab in tabs:
            tab.load()
            tab.run("window.title = document.querySelector('input')")
        for tab in tabs:
            add(tab)
        tabs.append(open_tab())
        tabs[-1].run("window.title = document.querySelector('input')")
        tabs.pop(0).close()
        for tab in tabs:
            add(tab)
        assert tabs[0].run("told.length") == 0
        network.listen()
        tabs[0].until(IDLE)
        told = [line for tab in tabs for line in tab.run("told")]
    assert [(kind, item["title"], problem) for kind, item, _, problem in told] == [
        ("create", title, None) for title in titles[1:]
    ]
    assert sorted(history().values()) == sorted([title] for title in titles)
    assert len(tasks(port, TOKENS["alice"])) == len(titles)


APP = """
import { Outbox, indexedDbStorage } from "./outbox.mjs";
const options = { url: "http://127.0.0.1:PORT", token: () => localStorage.token, pause: 0.02 };
window.outbox = new Outbox(indexedDbStorage("outbox"), options);
"""


def test_a_record_that_a_tab_puts_in_place_of_others_stays_before_those_that_others_have_added(
    chromium, origin
):
    open_tab = opener(chromium, origin, APP.replace("PORT", "9"))
    first, second = open_tab(), open_tab()
    for record in (1, 2):
        first.run(f"outbox.storage.save({record})")
    second.run("outbox.storage.save(3)")
    first.run("outbox.storage.save('1 and 2', 2)")
    assert second.run("outbox.storage.load()") == ["1 and 2", 3]
    second.run("outbox.storage.save(4)")
    assert first.run("outbox.storage.load()") == ["1 and 2", 3, 4]


def new_id(number):
    return f"01a1f940-4ea4-7000-8000-{number:012x}"


class Holding(Proxy):
    """Forwards requests and holds the first response to a batch; ``held`` is set meanwhile."""

    def __init__(self, port):
        self.held, self.released = threading.Event(), threading.Event()
        super().__init__(f"host=127.0.0.1 port={port}")

    def forwarded(self, content):
        if content.startswith(b"HTTP/1.1 200") and b"created" in content and not self.held.is_set():
            self.held.set()
            self.released.wait(60)
        return content

    def close(self):
        self.released.set()
        super().close()


def test_another_tab_takes_over_when_a_tab_is_closed_in_the_middle_of_sending(
    chromium, origin, port, history
):
    with closing(Holding(port)) as network:
        open_tab = opener(chromium, origin, APP.replace("PORT", str(network.port)))
        first, second = open_tab(), open_tab()
        first.put("create", id=new_id(1), title="First")
        first.send()
        assert network.held.wait(60)
        # The service has made the change, and the first tab does not know it.
        assert history() == {new_id(1): ["First"]}
        second.run("outbox.load()")
        assert second.run("outbox.waiting.size") == 1
        second.put("update", id=new_id(1), title="Second")
        second.send()
        second.until("(await navigator.locks.query()).pending.length")
        assert second.run("told.length") == 0
        first.close()
        second.until(IDLE)
        told = second.run("told")
    assert [(kind, now["version"], problem) for kind, _, now, problem in told] == [
        ("create", 1, None),
        ("update", 2, None),
    ]
    assert history() == {new_id(1): ["First", "Second"]}


def test_a_tab_that_stops_lets_another_tab_send_and_one_that_waits_can_stop_too(
    chromium, origin, port, history
):
    with closing(Proxy(f"host=127.0.0.1 port={port}")) as network:
        open_tab = opener(chromium, origin, APP.replace("PORT", str(network.port)))
        tabs = [open_tab(), open_tab(), open_tab()]
        network.refuse()
        for number, tab in enumerate(tabs):
            tab.put("create", id=new_id(number), title=f"Task {number}")
            tab.send()
        tabs[2].until("(await navigator.locks.query()).pending.length === 2")
        for tab in tabs[:2]:
            tab.run("outbox.stop()")
        network.listen()
        tabs[2].until(IDLE)
        assert [len(tab.run("told")) for tab in tabs] == [0, 0, 3]
    assert history() == {new_id(number): [f"Task {number}"] for number in range(3)}


def test_each_change_of_two_tabs_happens_once_in_order_if_connections_are_cut_and_tabs_go(
    chromium, origin, port, history
):
    number, seed = 200, int(os.environ.get("OUTBOX_SEED") or random.randrange(10**6))
    print(f"OUTBOX_SEED={seed}")
    chance = random.Random(seed)
    put = defaultdict(list)
    with closing(CuttingProxy(port, random.Random(seed))) as network:
        open_tab = opener(chromium, origin, APP.replace("PORT", str(network.port)))
        tabs = [open_tab(), open_tab()]
        for change in range(number):
            id, title, tab = new_id(chance.randrange(8)), f"t{change}", chance.choice(tabs)
            if id in put:
                # Neither tab asks for the task: both have seen the version that was created.
                tab.put("update", id=id, title=title, version=1)
            else:
                tab.put("create", id=id, title=title)
            put[id].append(title)
            tab.send()
            fate = chance.random()
            if fate < 0.05:
                tab.load()
            elif fate < 0.1:
                tab.close()
                tabs[tabs.index(tab)] = open_tab()
        tabs[0].send()
        tabs[0].until(IDLE)
        tabs[0].run("outbox.load()")
        assert tabs[0].run("outbox.waiting.size") == 0
        # The database does not keep what was sent.
        assert tabs[0].run("outbox.storage.load().then((records) => records.length)") < 250
        problems = {line[3] for tab in tabs for line in tab.run("told")}
    assert history() == put
    assert problems <= {None}
    print(f"{network.cuts} connections cut")
    assert network.cuts > 0
