"""The terminal, from the point of view of a person at a keyboard: the built binary on a pseudo terminal."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios

import pytest

from conftest import BIN, WAIT_S, free_port, until

CONFIG = """
[host]
status = ""

[agent]
runtime    = "echo"
test_words = true
"""

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A run of `hermes-host chat` on a pseudo terminal of 24 lines and 80 columns."""

    def __init__(self, host, *arguments, env=None):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.found = termios.tcgetattr(theirs)
        command = [BIN / "hermes-host", "chat", *arguments, "--home", host.home, "--config", host.config]
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=host.folder, start_new_session=True,
                                        env={**host.env, "TERM": "xterm", **(env or {})})
        self.screen, self.theirs, self.raw = ours, theirs, ""

    def read(self, seconds=0.05):
        while select.select([self.screen], [], [], seconds)[0]:
            try:
                more = os.read(self.screen, 65536)
            except OSError:
                return
            if not more:
                return
            self.raw += more.decode(errors="replace")

    def said(self):
        """Returns the shown lines in order: all text that began at the left edge."""
        self.read()
        return ESCAPES.sub("", self.raw.replace("\r\n", "\n").replace("\r", "\n"))

    def sees(self, what, times=1, timeout=WAIT_S):
        until(f"{what!r} on the screen", lambda: self.said().count(what) >= times, timeout)
        return self

    def types(self, text, enter="\r"):
        os.write(self.screen, (text + enter).encode())
        return self

    def ends(self, timeout=WAIT_S):
        """Waits for the end and returns the exit code. Checks that the terminal settings were restored."""
        until("the terminal leaves", lambda: self.said() is not None and self.process.poll() is not None, timeout)
        self.read()
        assert termios.tcgetattr(self.theirs) == self.found, "the terminal is put back into its state"
        return self.process.returncode

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.screen)
        os.close(self.theirs)

    def session(self):
        return re.findall(r"hermes-host chat --resume (\w+)", self.said())[-1]


@pytest.fixture
def terminal():
    """Opens terminals and closes all of them at the end."""
    opened = []

    def at(host, *arguments, **more):
        opened.append(Terminal(host, *arguments, **more))
        return opened[-1]

    yield at
    for one in opened:
        one.kill()


@pytest.fixture(params=["attached", "own"])
def place(request, host):
    """Returns a home with and without a running host."""
    one = host(CONFIG)
    if request.param == "attached":
        one.start()
        until("the host runs", one.status)
    return one


def users(place, session):
    """Returns the messages of the person in a session."""
    shown = json.loads(place.cli("session", "show", session, "--json").stdout)
    return [message["content"] for message in shown["messages"] if message["role"] == "user"]


def answers(said):
    """Returns the lines of the agent; typed text follows the prompt."""
    return [line for line in said.splitlines() if line and not line.startswith((">", "…"))]


def test_five_turns_and_the_way_back(place, terminal):
    one = terminal(place).sees("/quit exits")
    for n in range(1, 6):
        one.types(f"turn number {n}").sees(f"\nturn number {n}\n")
    one.types("/quit")
    assert one.ends() == 0
    again = terminal(place, "--resume", one.session()).sees("Resumed session").sees("turn number 5")
    again.types("turn number 6").sees("\nturn number 6\n").types("\x04", enter="")
    assert again.ends() == 0
    assert again.session() == one.session()
    assert users(place, one.session()) == [f"turn number {n}" for n in range(1, 7)]


def test_lines_of_several_lines_are_one_message(place, terminal):
    one = terminal(place).sees("/quit exits")

    def heard():
        sessions = json.loads(place.cli("session", "list", "--json").stdout)
        return users(place, sessions[0]["id"]) if sessions else []

    for count, typed in enumerate(["one\\\rtwo\r", "one\x1b\rtwo\r", "\x1b[200~one\ntwo\x1b[201~\r"], 1):
        one.types(typed, enter="")
        until(f"message {count} is heard", lambda: len(heard()) == count)
    assert heard() == ["one\ntwo"] * 3
    one.types("/quit")
    assert one.ends() == 0


def test_ctrl_c_stops_the_turn_and_twice_leaves(place, terminal):
    one = terminal(place).sees("/quit exits").types("/slow 300 one two three four five six seven eight nine ten")
    one.sees("… ")
    one.types("\x03", enter="")
    until("it is stopped", lambda: "(interrupted)" in one.said() or "(stopped)" in one.said())
    one.types("and on").sees("\nand on\n")
    assert "ten" not in answers(one.said())[-1]
    # Keys pressed before count only for a moment.
    one.types("\x03", enter="").sees("Press Ctrl-C again")
    one.types("\x03", enter="")
    assert one.ends() == 0


def test_a_question_is_answered_at_the_keyboard(place, terminal):
    one = terminal(place).sees("/quit exits").types("/ask make coffee").sees("Answer with a number or a word.")
    first = re.search(r"\n  1\. (\S+)", one.said()).group(1)
    one.types("1").sees("approved: once")
    one.types("/ask make tea").sees("Answer with a number or a word.", times=2)
    one.types(first).sees("approved: once", times=2)
    one.types("/choose tea or coffee? | tea | coffee").sees("2. coffee").types("2").sees("coffee", times=3)


def test_a_killed_terminal_leaves_its_turn_and_its_answer(host, terminal):
    place = host(CONFIG).start()
    until("the host runs", place.status)
    one = terminal(place).sees("/quit exits").types("remember me").sees("\nremember me\n")
    one.types("/slow 200 one two three four five six")
    until("the turn runs", lambda: place.status()["queues"]["turns"] == 1)
    one.process.send_signal(signal.SIGKILL)
    one.process.wait()
    session = json.loads(place.cli("session", "list", "--json").stdout)[0]["id"]
    until("the answer is owed", lambda: [row for row in json.loads(place.cli("outbox", "list", "--json").stdout) if row["state"] == "owed"])
    again = terminal(place, "--resume", session).sees("one two three four five six")
    again.types("/quit")
    assert again.ends() == 0
    assert place.status()["queues"]["outbox"] == 0, "it was delivered"
    assert "one two three four five six" in place.cli("session", "show", session).stdout


def test_what_is_owed_waits_until_somebody_attaches(host, terminal):
    place = host(CONFIG).start()
    until("the host runs", place.status)
    place.cli("send", "terminal:3", "while you were **away**")
    assert json.loads(place.cli("outbox", "list", "--json").stdout)[0]["state"] == "owed"
    one = terminal(place).sees("while you were away")
    one.types("/quit")
    assert one.ends() == 0
    until("it is delivered", lambda: place.status()["queues"]["outbox"] == 0)


def test_a_host_takes_over_and_the_conversation_goes_on(host, terminal):
    place = host(CONFIG)
    one = terminal(place).sees("this terminal runs one").types("before").sees("\nbefore\n")
    assert place.cli("status").returncode == 0
    second = subprocess.run([BIN / "hermes-host", "chat", "-m", "beside it", "--home", place.home, "--config", place.config],
                            env=place.env, cwd=place.folder, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert (second.returncode, second.stdout) == (0, "beside it\n"), "another terminal attaches to it"
    place.start()
    one.sees("Another host is taking over").sees("The host is running again; this conversation continues.")
    assert place.status()["host"]["pid"] == place.program.process.pid
    one.types("after").sees("\nafter\n").types("/quit")
    assert one.ends() == 0
    assert users(place, one.session()) == ["before", "after"]
    refused = place.cli("run", check=False)
    assert refused.returncode == 1 and "another host" in refused.stderr


def test_the_host_that_stops_says_so(host, terminal):
    place = host(CONFIG).start()
    until("the host runs", place.status)
    one = terminal(place).sees("/quit exits").types("hello").sees("\nhello\n")
    assert place.stop() == 0
    one.sees("the host ended; the conversation is kept")
    assert one.ends() == 69
    assert one.session()


def test_commands_are_completed_and_remembered(host, terminal):
    place = host(CONFIG)
    one = terminal(place).sees("/quit exits").types("/whoa\t").sees("agent:main:terminal:dm:1")
    one.types("/quit")
    assert one.ends() == 0
    history = place.home / "chat_history"
    assert history.stat().st_mode & 0o777 == 0o600
    again = terminal(place).sees("/quit exits")
    # Up, up: the earlier input is shown again.
    again.types("\x1b[A\x1b[A").sees("agent:main:terminal:dm:1")
    again.types("/help quit").sees("Leave the terminal")
    again.types("\x04", enter="")
    assert again.ends() == 0


def test_no_colours_where_nobody_wants_them(host, terminal):
    place = host(CONFIG)
    one = terminal(place, env={"NO_COLOR": "1"}).sees("/quit exits").types("**bold**").sees("\n**bold**\n").types("/quit")
    assert one.ends() == 0
    assert "\x1b[1m" not in one.raw and "\x1b[2m" not in one.raw
    coloured = terminal(place).sees("/quit exits").types("**bold**").sees("\nbold\n").types("/quit")
    assert coloured.ends() == 0
    assert "\x1b[1mbold" in coloured.raw
    said = place.cli("chat", "-m", "a \x1b[31mred\x1b]0;title\x07 word").stdout
    assert "red" in said and "\x1b" not in said and "\x07" not in said, "what the agent says commands no terminal"


def test_a_pipe_gets_the_answer_only(place):
    command = [BIN / "hermes-host", "chat", "--home", place.home, "--config", place.config]
    done = subprocess.run(command, input="two\nlines\n", env=place.env, cwd=place.folder, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "two\nlines\n", "")
    done = subprocess.run([*command, "-m", "/fail"], env=place.env, cwd=place.folder, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "") and done.stderr.startswith("error: ")
    slow = subprocess.Popen([*command, "-m", "/hang for ever"], env=place.env, cwd=place.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    until("the turn runs", lambda: (place.status() or {"queues": {"turns": 0}})["queues"]["turns"] == 1)
    slow.send_signal(signal.SIGINT)
    assert slow.wait(30) == 130


def test_a_conversation_moves_to_the_page_and_back(host, terminal):
    section = f'\n[adapter.webchat]\nlisten = "127.0.0.1:{free_port()}"\nhome_channel = "inbox"\n'
    place = host(CONFIG + section).start(online=["webchat"])
    one = terminal(place).sees("/quit exits").types("/handoff webchat").sees("This conversation has no messages yet")
    one.types("before it moved").sees("\nbefore it moved\n")
    one.types("/handoff nowhere").sees("Handoff failed")
    one.types("/handoff").sees("/claim ")
    one.types("/handoff web\t").sees("hermes-host chat --resume")
    assert one.ends() == 0
    session = one.session()
    moved = json.loads(place.cli("handoff", "show", session, "--json").stdout)
    assert moved["state"] == "completed", moved
    again = terminal(place, "--resume", session).sees("also open in webchat").sees("before it moved")
    again.types("back again").sees("\nback again\n").types("/quit")
    assert again.ends() == 0
    assert users(place, session)[0] == "before it moved" and users(place, session)[-1] == "back again"
