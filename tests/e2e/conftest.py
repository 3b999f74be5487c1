"""Fixtures: the built host and libraries with real input.

Environment (set by `run`): HERMES_BIN, the folder of the built binary; TELEGRAM_SCHEMA, the published schema;
AIMOCK, the folder in which the model mock is installed.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import pytest

HERE = pathlib.Path(__file__).parent
BIN = pathlib.Path(os.environ["HERMES_BIN"])
WAIT_S = 30
# Size of the largest file that may remain in a test's folder, in bytes.
KEPT_BYTES_MAX = 50 << 20
# Credential locks apply to all hosts of a user, so each test run needs a separate folder for them.
RUNTIME = tempfile.TemporaryDirectory(prefix="hermes-e2e-")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(what, check, timeout=WAIT_S):
    """Polls `check` until it returns a result. Fails with `what` and the last result."""
    deadline, last = time.monotonic() + timeout, None
    while time.monotonic() < deadline:
        last = check()
        if last:
            return last
        time.sleep(0.05)
    raise AssertionError(f"not within {timeout} s: {what} (last: {last!r})")


def request(method, url, body=None, headers=None, timeout=WAIT_S):
    data = None if body is None else json.dumps(body).encode()
    call = urllib.request.Request(url, data, {"content-type": "application/json", **(headers or {})}, method=method)
    with urllib.request.urlopen(call, timeout=timeout) as answer:
        return json.loads(answer.read() or b"null")


def until_it_answers(program, look):
    """Waits for a server that is starting. Fails with its output if it has ended."""

    def answers():
        assert program.process.poll() is None, program.said()
        try:
            return look()
        except OSError:
            return None  # The server does not listen yet.

    until("the server answers", answers)


class Program:
    """A process that is stopped by its process id."""

    def __init__(self, arguments, log, **more):
        self.log = log
        self.process = subprocess.Popen(arguments, stdout=open(log, "ab"), stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **more)

    def said(self):
        return self.log.read_text(errors="replace")

    def stop(self, how=signal.SIGTERM, timeout=40):
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"did not end within {timeout} s:\n{self.said()[-4000:]}") from None


class Host:
    """A hermes-host with a separate home folder."""

    def __init__(self, folder, config, env=None):
        self.home = folder / "home"
        self.home.mkdir(mode=0o700)
        self.config = folder / "plugins.toml"
        self.config.write_text(config)
        self.config.chmod(0o600)
        self.folder, self.program = folder, None
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_RUNTIME_DIR": RUNTIME.name, **(env or {})}

    def start(self, online=(), env=None):
        self.program = Program([BIN / "hermes-host", "run", "--config", self.config, "--home", self.home], self.folder / "host.log",
                               env={**self.env, **(env or {})}, cwd=self.folder)
        for name in online:
            self.wait_online(name)
        return self

    def cli(self, *arguments, check=True):
        done = subprocess.run([BIN / "hermes-host", *arguments, "--home", self.home, "--config", self.config], env=self.env, cwd=self.folder,
                              capture_output=True, text=True, timeout=60)
        if check:
            assert done.returncode == 0, (arguments, done.returncode, done.stdout, done.stderr)
        return done

    def status(self):
        done = self.cli("status", "--json", check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def adapter(self, name):
        status = self.status()
        return status and next((one for one in status["adapters"] if one["name"] == name), None)

    def wait_state(self, name, state, timeout=WAIT_S):
        def look():
            assert self.program.process.poll() is None, f"the host ended:\n{self.program.said()[-4000:]}"
            found = self.adapter(name)
            return found if found and found["state"] == state else None

        return until(f"{name} is {state}", look, timeout)

    def wait_online(self, name):
        return self.wait_state(name, "online")

    def stop(self, how=signal.SIGTERM):
        return self.program.stop(how)

    def kill(self):
        """Kills the host with kill -9, together with the children that would outlive it."""
        self.program.process.kill()
        self.program.process.wait()


@pytest.fixture(autouse=True)
def nothing_large_is_left(tmp_path):
    """Removes large files, because pytest keeps the folders of three runs. Created first, so that it ends last."""
    yield
    for path in tmp_path.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.stat().st_size > KEPT_BYTES_MAX:
            path.unlink()


@pytest.fixture
def host(tmp_path):
    """Creates hosts and stops the remaining ones."""
    made = []

    def make(config, env=None, name="host"):
        folder = tmp_path / name
        folder.mkdir()
        made.append(Host(folder, config, env))
        return made[-1]

    yield make
    for one in made:
        if one.program and one.program.process.poll() is None:
            one.stop()


class Telegram:
    """The emulator, from the point of view of people who write to the bot."""

    TOKEN = "4242:TESTTOKENTESTTOKENTESTTOKENTESTTOKEN"

    def __init__(self, base):
        self.base = base

    def sim(self, what, **body):
        return request("POST", f"{self.base}/_sim/{self.TOKEN}/{what}", body)

    def get(self, what):
        return request("GET", f"{self.base}/_sim/{self.TOKEN}/{what}")

    def says(self, chat, text, **more):
        return self.sim("message", chat=chat, text=text, **more)

    def fault(self, method, kind, **more):
        self.sim("fault", method=method, kind=kind, **more)

    def chat(self, chat):
        return self.get(f"chat/{chat}")

    def from_bot(self, chat):
        return [message for message in self.chat(chat) if message["from"]["id"] == 42]

    def answers(self, chat, count, timeout=WAIT_S):
        found = until(f"{count} messages of the bot in {chat}", lambda: len(self.from_bot(chat)) >= count, timeout)
        assert found
        return [message.get("text") for message in self.from_bot(chat)]

    def verdict(self):
        verdict = self.get("verdict")
        assert verdict["ok"], verdict["errors"]
        assert verdict["calls"] > 0


@contextlib.contextmanager
def emulator(folder):
    """Runs a separate Telegram emulator while it is in use."""
    port, spool = free_port(), folder / "bot-api"
    spool.mkdir()
    arguments = [sys.executable, HERE / "telegram_emulator.py", os.environ["TELEGRAM_SCHEMA"], str(port), spool]
    program = Program(arguments, folder / "emulator.log")
    found = Telegram(f"http://127.0.0.1:{port}")
    try:
        until_it_answers(program, lambda: found.get("verdict") is not None)
        yield found
    finally:
        program.stop(signal.SIGKILL)
        shutil.rmtree(spool)


@pytest.fixture
def telegram(tmp_path):
    with emulator(tmp_path) as found:
        yield found


@pytest.fixture(params=["in-process", "process"])
def isolation(request):
    """Runs a test in both isolation modes of the same library."""
    return request.param


def telegram_section(telegram, isolation, more=""):
    return f"""
[adapter.telegram]
token      = "{telegram.TOKEN}"
base_url   = "{telegram.base}"
isolation  = "{isolation}"
poll_timeout_s = 2
access     = {{ allowed_users = ["7", "8", "9"], operators = ["7"] }}
{more}
"""


HEADER = """
[host]
status = ""

[agent]
runtime = "echo"
"""
