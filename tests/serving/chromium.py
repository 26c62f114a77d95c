"""Chromium without a window, driven over pipes with the DevTools protocol."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
_FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]
_SECONDS = 60  # that a page may take until an expression is true


class Page:
    """One page of a browser."""

    def __init__(self, requests: BinaryIO, answers: BinaryIO):
        self._requests = requests
        self._answers = answers
        self._number = 0
        self._rest = b""
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]

    def call(self, method: str, **parameters: Any) -> dict:
        """Send a command, and return its result."""
        self._number += 1
        request = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            request["sessionId"] = self._session
        self._requests.write(json.dumps(request).encode() + b"\0")
        while True:
            message = self._read_message()
            if message.get("id") == self._number:
                assert "result" in message, f"{method}: {message}"
                return message["result"]

    def _read_message(self) -> dict:
        while b"\0" not in self._rest:
            data = self._answers.read(1 << 20)
            assert data, "chromium ended"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, or of its promise."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Wait until an expression is true, and return its value."""
        end = time.monotonic() + _SECONDS
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < end, (
                f"{expression}: {self.evaluate('document.body.innerText')}"
            )
            time.sleep(0.02)
        return value

    def open(self, address: str) -> None:
        """Open an address, and wait until its scripts ran."""
        self.call("Page.navigate", url=address)
        self.wait_for("location.href !== 'about:blank' && document.readyState === 'complete'")

    def press(self, key: str, number: int) -> None:
        """Press a key that writes no text."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=number
            )

    def type(self, text: str) -> None:
        """Write text into the field that has the focus."""
        self.call("Input.insertText", text=text)


@contextlib.contextmanager
def open_browser() -> Iterator[Page]:
    """Start Chromium, and yield its page."""
    read_requests, write_requests = os.pipe()
    read_answers, write_answers = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = [*_FLAGS, "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        # Chromium reads requests from 3 and writes answers to 4
        command = f'exec "$0" "$@" 3<&{read_requests} 4>&{write_answers}'
        process = subprocess.Popen(
            ["bash", "-c", command, CHROMIUM, *flags],
            pass_fds=(read_requests, write_answers),
            stderr=subprocess.DEVNULL,
        )
        os.close(read_requests)
        os.close(write_answers)
        with open(write_requests, "wb", 0) as requests, open(read_answers, "rb", 0) as answers:
            try:
                yield Page(requests, answers)
            finally:
                process.terminate()
                process.wait(30)
