"""`adapter-sdk/GUIDE.md`, followed by a new author: each block of the page is executed in order in an empty folder.

The language of a block determines its use: `sh` is executed; `console` is a dialog over a connection; `text` is
the output of the last command; `rust` is part of the crate or is inserted into it, as the sentence before it says;
`toml` is the configuration of the host. The test fails if the page does not match the behaviour.
"""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile

import pytest

from conftest import BIN, HERE, WAIT_S, free_port, until

ROOT = HERE.parent.parent
GUIDE = ROOT / "adapter-sdk/GUIDE.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
# Commands that run until they are ended.
STAYS = ("hermes-host adapter try", "hermes-host run")
# Time limit in seconds; a compiler may have to build all crates.
BUILD_S = 900
PORT = "4000"


def blocks(page):
    """Returns each block with the sentence before it, its language and its content."""
    end = 0
    for found in BLOCK.finditer(page):
        yield page[end:found.start()].strip().rsplit("\n\n", 1)[-1].replace("\n", " "), found[1], found[2]
        end = found.end()


class Stranger:
    def __init__(self, folder, port):
        self.folder, self.port, self.where = folder, port, folder / "empty"
        self.where.mkdir()
        (folder / "bin").mkdir()
        (folder / "bin/hermes-host").symlink_to(BIN / "hermes-host")
        (folder / "tmp").mkdir()
        self.home = folder / "home"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CARGO_TARGET", "HERMES_", "OPENAI_"))}
        self.env = {**kept, "PATH": f"{folder}/bin:{os.environ['PATH']}", "CHECKOUT": str(ROOT), "HERMES_HOST_HOME": str(self.home),
                    "TMPDIR": str(folder / "tmp"), "CARGO_TERM_COLOR": "never"}
        self.shown, self.stays = "", None

    def sh(self, commands):
        if commands.startswith(STAYS):
            log = self.folder / "stays.log"
            self.stays = subprocess.Popen(commands, shell=True, executable="/bin/bash", cwd=self.where, env=self.env, stdin=subprocess.PIPE,
                                          stdout=log.open("wb"), stderr=subprocess.STDOUT, start_new_session=True)
            return
        self.end()
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", f"{commands}\npwd >'{self.folder}/where'"], cwd=self.where, env=self.env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=BUILD_S)
        assert done.returncode == 0, f"{commands}\n{done.stdout[-4000:]}"
        self.shown = done.stdout
        self.where = pathlib.Path((self.folder / "where").read_text().strip())
        if "hermes-host adapter new" in commands:
            self.settle()

    def settle(self):
        """Adapts the new crate to this test: its port, tested versions, and a persistent build folder."""
        library = self.where / "src/lib.rs"
        library.write_text(library.read_text().replace(PORT, self.port))
        shutil.copy(ROOT / "Cargo.lock", self.where / "Cargo.lock")
        built = ROOT / "target/e2e/guide"
        built.mkdir(parents=True, exist_ok=True)
        (self.where / "target").symlink_to(built)

    def text(self, lines):
        """Checks that the lines are shown: in this order by a finished command, at any time by a running one."""
        if self.stays:
            log = self.folder / "stays.log"
            for line in lines.splitlines():
                until(f"{line!r} is shown", lambda: line.rstrip() in [shown.rstrip() for shown in log.read_text().splitlines()])
            return
        at, shown = 0, [line.rstrip() for line in self.shown.splitlines()]
        for line in lines.splitlines():
            assert line.rstrip() in shown[at:], f"{line}\nis not in\n{self.shown}"
            at = shown.index(line.rstrip(), at) + 1

    def console(self, transcript):
        """Plays the part of `nc`, which need not be installed."""
        first, *lines = transcript.splitlines()
        host, port = re.fullmatch(r"\$ nc (\S+) (\d+)", first).groups()
        with socket.create_connection((host, int(port)), timeout=WAIT_S) as connection:
            answers = connection.makefile("r")
            for line in lines:
                text, comment = (part.strip() for part in re.split(r" {2,}# ", line))
                if comment == "it answers":
                    assert answers.readline().strip() == text
                else:
                    connection.sendall(f"{text}\n".encode())

    def rust(self, sentence, code):
        library = self.where / "src/lib.rs"
        text = library.read_text()
        instead = re.search(r"in the place of `(.+?)`:$", sentence)
        if instead:
            assert text.count(instead[1]) == 1
            library.write_text(text.replace(instead[1], code.strip()))
        elif sentence.endswith("at the end of `src/lib.rs`:"):
            library.write_text(f"{text}\n{code}")
        else:
            assert code in text, f"src/lib.rs does not say\n{code}"

    def toml(self, section):
        config = self.home / "plugins.toml"
        config.write_text(section)
        config.chmod(0o600)

    def end(self):
        if self.stays:
            os.killpg(self.stays.pid, signal.SIGINT)
            assert self.stays.wait(40) == 0, (self.folder / "stays.log").read_text()
            self.stays = None


@pytest.fixture
def stranger():
    # The path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="guide-") as folder:
        one = Stranger(pathlib.Path(folder), str(free_port()))
        yield one
        if one.stays:
            os.killpg(one.stays.pid, signal.SIGKILL)
            one.stays.wait()


def test_whoever_follows_the_guide_has_a_certified_adapter(stranger):
    page = GUIDE.read_text().replace(PORT, stranger.port)
    acts = {"sh": lambda _, body: stranger.sh(body), "text": lambda _, body: stranger.text(body), "rust": stranger.rust,
            "console": lambda _, body: stranger.console(body), "toml": lambda _, body: stranger.toml(body)}
    run = 0
    for sentence, word, body in blocks(page):
        acts[word](sentence, body)
        run += 1
    assert run == page.count("\n```") // 2 > 20, "a block of the page was not understood"
    stranger.end()
    assert list((stranger.folder / "tmp").iterdir()) == [], "something is left behind"


def test_what_the_guide_points_at_is_there():
    pointers = re.findall(r"\[[^]]*\]\(([^)#]+)\)(?: `(\w+)[^`]*`)?", GUIDE.read_text())
    assert len(pointers) > 10
    for path, word in pointers:
        file = GUIDE.parent / path
        assert file.is_file(), path
        assert word in file.read_text(), (path, word)
