"""The Python gateway (`hermes-agent`) with the same emulator and the same model, with the interface of `Host`.

It is installed on first use into a separate venv in REFERENCE, because its pinned dependencies differ from those
of the other tests.
"""

import os
import pathlib
import signal
import subprocess
import sys

from conftest import HERE, Program, until

PINNED = HERE / "python_gateway.txt"
STARTS_S = 90
STOPS_S = 90
INSTALL_S = 300


def installed():
    """Returns the gateway's program. Installs it if the pinned version is missing."""
    folder = pathlib.Path(os.environ["REFERENCE"])
    stamp = folder / "installed.txt"
    if not stamp.exists() or stamp.read_text() != PINNED.read_text():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "-r", PINNED], check=True, timeout=INSTALL_S)
        stamp.write_text(PINNED.read_text())
    return folder / "bin/hermes"


class PythonGateway:
    """A run of `hermes gateway run` with a separate home folder."""

    def __init__(self, folder, telegram, model, config=""):
        self.folder, self.telegram, self.program = folder, telegram, None
        self.home = folder / "home"
        self.home.mkdir(mode=0o700)
        (self.home / "config.yaml").write_text(f"""
model: {{provider: custom, default: gpt-4o, base_url: "{model}/v1", api_key: mock, context_length: 128000}}
platforms:
  telegram:
    enabled: true
    token: "{telegram.TOKEN}"
    home_channel: {{platform: telegram, chat_id: "7", name: Home}}
    extra: {{base_url: "{telegram.base}/bot", base_file_url: "{telegram.base}/file/bot", require_mention: true}}
{config}""")
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder), "HERMES_HOME": str(self.home), "TELEGRAM_ALLOWED_USERS": "7,8,9",
                    "XDG_STATE_HOME": str(folder / "state"), "HERMES_TELEGRAM_DISABLE_FALLBACK_IPS": "1", "HERMES_DISABLE_LAZY_INSTALLS": "1"}

    def polls(self):
        return len([call for call in self.telegram.get("journal") if call["method"].lower() == "getupdates"])

    def start(self):
        before = self.polls()
        # The gateway treats three starts within a minute as a loop and then resumes no turn; here the script causes
        # the starts.
        (self.home / "gateway/restart_loop.json").unlink(missing_ok=True)
        self.program = Program([installed(), "gateway", "run"], self.folder / "gateway.log", env=self.env, cwd=self.folder)

        def polled():
            assert self.program.process.poll() is None, f"the gateway ended:\n{self.program.said()[-4000:]}"
            return self.polls() > before

        until("the Python gateway asks for messages", polled, STARTS_S)
        return self

    def stop(self, how=signal.SIGTERM):
        return self.program.stop(how, timeout=STOPS_S)

    def kill(self):
        self.program.process.kill()
        self.program.process.wait()

    def ask_to_stop(self):
        self.program.process.send_signal(signal.SIGTERM)

    def drains(self):
        return False  # The gateway interrupts its turns and ends.
