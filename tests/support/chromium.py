"""Chromium as a person uses it: opens pages in windows of any size, acts on them, takes pictures.

The browser is controlled over a pipe, with the DevTools protocol, and needs no further program.
"""

import json
import os
import subprocess
from base64 import b64decode
from contextlib import suppress
from tempfile import TemporaryDirectory

OPTIONS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-extensions", "--lang=en-US", "--remote-debugging-pipe"),
    # Another host than localhost, whose pages on plain http are no secure contexts.
    "--host-resolver-rules=MAP tasks.lan 127.0.0.1",
]


class Chromium:
    """A running browser with one window, as a context manager."""

    def __enter__(self):
        self.folder = TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        reads, self.requests = os.pipe()
        self.responses, writes = os.pipe()
        command = ["chromium", *OPTIONS, f"--user-data-dir={self.folder.name}", "about:blank"]
        # The browser reads requests from the file descriptor 3, and writes responses to 4.
        shell = ["bash", "-c", f'exec "$@" 3<&{reads} 4>&{writes}', "bash", *command]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(shell, pass_fds=[reads, writes], **quiet)
        os.close(reads)
        os.close(writes)
        self.number, self.received, self.session = 0, b"", {}
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self.session = {"sessionId": attached["sessionId"]}
        return self

    def __exit__(self, *_):
        with suppress(Exception):
            self.session = {}
            self.send("Browser.close")
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        self.process.kill()
        self.process.wait()
        os.close(self.requests)
        os.close(self.responses)
        self.folder.cleanup()

    def send(self, method, **parameters):
        """Send a command and return its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters, **self.session}
        os.write(self.requests, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.received:
                content = os.read(self.responses, 2**20)
                assert content, "chromium has ended"
                self.received += content
            text, _, self.received = self.received.partition(b"\0")
            answer = json.loads(text)
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer)
                return answer["result"]

    def open(self, url, width=1280, height=900, dark=False):
        """Open a page in a window of this size; below 600 px it is a phone."""
        phone = width < 600
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        # A new document, even if only the fragment differs.
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=url)
        self.until("location.href !== 'about:blank' && document.readyState === 'complete'")

    def run(self, script):
        """Run a script in the page, and return its value; a promise is awaited."""
        options = {"awaitPromise": True, "returnByValue": True, "userGesture": True}
        ran = self.send("Runtime.evaluate", expression=script, **options)
        assert "exceptionDetails" not in ran, ran["exceptionDetails"]
        return ran["result"].get("value")

    def until(self, condition, seconds=60):
        """Wait until a condition, a script, is true; return its value."""
        pause = "await new Promise((go) => setTimeout(go, 50));"
        loop = (
            f"for (let n = 0; n < {seconds * 20}; n++) {{ if ({condition}) return true; {pause} }}"
        )
        assert self.run(f"(async () => {{ {loop} return false; }})()"), condition

    def press(self, key, times=1):
        """Press a key: Tab, Enter or a letter."""
        codes = {"Tab": 9, "Enter": 13}
        text = {"text": "\r"} if key == "Enter" else {}
        for _ in range(times):
            options = {"key": key, "code": key, "windowsVirtualKeyCode": codes.get(key, 0)}
            self.send("Input.dispatchKeyEvent", type="keyDown", **options, **text)
            self.send("Input.dispatchKeyEvent", type="keyUp", **options)

    def picture(self, path, x, y, width, height):
        """Store a picture of a part of the page."""
        clip = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
        taken = self.send("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(b64decode(taken["data"]))
