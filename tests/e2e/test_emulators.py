"""The emulators themselves, checked with official clients and with a second, independent emulator."""

import concurrent.futures
import pathlib
import subprocess
import sys
import time
import urllib.request

from conftest import HEADER, HERE, Program, emulator, free_port, request, until

LO = pathlib.Path(sys.executable).parent / "lo-bot-api-emulator"


def test_two_client_libraries_find_the_telegram_emulator_true(telegram):
    done = subprocess.run([sys.executable, HERE / "check_telegram_emulator.py", telegram.base], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_host_passes_an_independent_emulators_verdict(host, tmp_path, isolation):
    port, journal = free_port(), tmp_path / "journal.jsonl"
    program = Program([LO, "--port", str(port), "--enable-control", "--journal", journal], tmp_path / "lo.log")
    # This emulator gives the bot the id 7 and does not know `link_preview_options`.
    base, token = f"http://127.0.0.1:{port}", "123:abc"

    def pushed():
        try:
            return request("POST", f"{base}/__fixture/updates", {"token": token, "update": {"message": {
                "message_id": 5, "date": int(time.time()), "chat": {"id": 8, "type": "private", "first_name": "A"},
                "from": {"id": 8, "is_bot": False, "first_name": "A"}, "text": "hello"}}})
        except OSError:
            return None

    try:
        one = host(HEADER + f"""
[adapter.telegram]
token     = "{token}"
base_url  = "{base}"
isolation = "{isolation}"
poll_timeout_s = 2
link_previews  = true
access    = {{ allowed_users = ["8"] }}
""").start(online=["telegram"])
        until("the update is taken", pushed)
        until("the answer is in the journal", lambda: "sendMessage" in journal.read_text())
        one.stop()
        verdict = subprocess.run([LO, "verdict", journal, "--require-response", "--require-method", "sendMessage"],
                                 capture_output=True, text=True, timeout=30)
        assert verdict.returncode == 0, verdict.stdout + verdict.stderr
    finally:
        program.stop()


def test_the_emulator_speaks_for_the_bot_it_is_asked_about(telegram):
    answer = request("POST", f"{telegram.base}/bot{telegram.TOKEN}/getMe", {})
    assert answer["result"]["username"] == "hermes_bot"


def test_what_was_sent_to_the_emulator_goes_with_it(tmp_path):
    with emulator(tmp_path) as telegram:
        boundary = "b0undary"
        part = f'--{boundary}\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'
        body = part % ("chat_id", "", "7") + part % ("document", '; filename="a.bin"', "x" * 1000) + f"--{boundary}--\r\n"
        call = urllib.request.Request(f"{telegram.base}/bot{telegram.TOKEN}/sendDocument", body.encode(),
                                      {"content-type": f"multipart/form-data; boundary={boundary}"}, method="POST")
        assert urllib.request.urlopen(call, timeout=10).status == 200
        assert [path.stat().st_size for path in (tmp_path / "bot-api").iterdir()] == [1000]
    assert not (tmp_path / "bot-api").exists()


def test_what_is_held_and_dropped_is_never_done(telegram):
    telegram.fault("sendMessage", "hold")
    with concurrent.futures.ThreadPoolExecutor() as beside:
        held = beside.submit(request, "POST", f"{telegram.base}/bot{telegram.TOKEN}/sendMessage", {"chat_id": 7, "text": "x"})
        until("it is held", lambda: any(call.get("fault") == "hold" for call in telegram.get("journal")))
        telegram.sim("release", method="sendMessage", dropped=True)
        assert isinstance(held.exception(), OSError)
    assert telegram.from_bot(7) == []
