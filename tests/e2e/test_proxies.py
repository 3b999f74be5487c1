"""Outgoing connections through real proxies: tinyproxy (HTTP) and pproxy (SOCKS), in both isolation modes.

The platform is `telegram.invalid`, a name that cannot be resolved. Each proxy passes it to a small parent proxy of
the test, which knows the emulator's address, so an answer in the chat proves that the proxy was used.
"""

import json
import re
import shutil
import socket
import socketserver
import sys
import threading

import pytest
from conftest import HEADER, Program, free_port, telegram_section, until

OUTSIDE = "telegram.invalid"


class Parent(socketserver.ThreadingTCPServer):
    """A parent proxy that passes requests for `telegram.invalid` to a local port."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, port):
        super().__init__(("127.0.0.1", 0), Passing)
        self.to, self.heads = port, []
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Passing(socketserver.StreamRequestHandler):
    def handle(self):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self.rfile.readline()
            if not line:
                return
            head += line
        self.server.heads.append(head.decode("latin-1"))
        method, target, _ = head.split(b" ", 2)
        with socket.create_connection(("127.0.0.1", self.server.to)) as server:
            if method == b"CONNECT":
                assert target == f"{OUTSIDE}:80".encode(), target
                self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                # One request per connection, so that the next request is counted too.
                first, rest = re.sub(rf" http://{re.escape(OUTSIDE)}(:80)?/".encode(), b" /", head, count=1).split(b"\r\n", 1)
                server.sendall(first + b"\r\nconnection: close\r\n" + rest)
            back = threading.Thread(target=passed_on, args=(server, self.connection), daemon=True)
            back.start()
            passed_on(self.rfile, server)
            back.join(60)


def passed_on(source, target):
    read = source.read1 if hasattr(source, "read1") else source.recv
    try:
        while piece := read(65536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # One side has closed the connection.


def tinyproxy(folder, parent, more=""):
    port, file = free_port(), folder / "tinyproxy.conf"
    file.write_text(f'Port {port}\nListen 127.0.0.1\nTimeout 60\nMaxClients 20\nUpstream http 127.0.0.1:{parent.port} ".invalid"\n{more}\n')
    program = Program([shutil.which("tinyproxy") or "/usr/sbin/tinyproxy", "-d", "-c", file], folder / "proxy.log")
    return program, f"127.0.0.1:{port}"


def pproxy(folder, parent, user=""):
    port = free_port()
    arguments = [sys.executable, "-m", "pproxy", "-l", f"socks5://127.0.0.1:{port}/{user}", "-r", f"http://127.0.0.1:{parent.port}"]
    return Program(arguments, folder / "proxy.log"), f"127.0.0.1:{port}"


def listens(address):
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
        return True
    except OSError:
        return False


@pytest.fixture
def parent(telegram):
    made = Parent(int(telegram.base.rsplit(":", 1)[1]))
    yield made
    made.shutdown()
    made.server_close()


def section(telegram, isolation, more=""):
    return telegram_section(telegram, isolation, more).replace(telegram.base, f"http://{OUTSIDE}")


def spoken_through(one, telegram, parent):
    one.wait_online("telegram")
    telegram.says(7, "hello")
    assert "hello" in telegram.answers(7, 1)[0]
    assert parent.heads and all(OUTSIDE in head for head in parent.heads)


def test_the_environment_names_an_http_proxy(host, telegram, parent, isolation, tmp_path):
    proxy, address = tinyproxy(tmp_path, parent)
    try:
        until("the proxy listens", lambda: listens(address))
        one = host(HEADER + section(telegram, isolation), env={"HTTP_PROXY": f"http://{address}", "NO_PROXY": "127.0.0.1"}).start()
        spoken_through(one, telegram, parent)
        assert address in one.status()["host"]["proxy"]
        assert f"http://{address}" in one.cli("config", "check").stdout
        assert one.stop() == 0
    finally:
        proxy.stop()


def test_a_key_names_an_http_proxy_that_wants_a_password_and_nothing_shows_it(host, telegram, parent, isolation, tmp_path):
    proxy, address = tinyproxy(tmp_path, parent, "BasicAuth lovelace hunter2hunter2")
    try:
        until("the proxy listens", lambda: listens(address))
        header = HEADER.replace("[host]\n", f'[host]\nproxy = "http://lovelace:hunter2hunter2@{address}"\n')
        one = host(header + section(telegram, isolation)).start()
        spoken_through(one, telegram, parent)
        shown = [one.cli("status").stdout, one.cli("config", "show").stdout, one.cli("config", "check").stdout, one.program.said()]
        assert all("hunter2" not in text and "lovelace" not in text for text in shown)
        assert all(address in text for text in shown[:3])
        assert one.stop() == 0
    finally:
        proxy.stop()


def test_an_instance_names_a_socks_proxy_of_its_own(host, telegram, parent, isolation, tmp_path):
    proxy, address = pproxy(tmp_path, parent, "#lovelace:hunter2hunter2")
    try:
        until("the proxy listens", lambda: listens(address))
        more = f'proxy = "socks5h://lovelace:hunter2hunter2@{address}"'
        env = {"ALL_PROXY": "http://127.0.0.1:9"}
        one = host(HEADER + section(telegram, isolation, more), env=env).start()
        spoken_through(one, telegram, parent)
        assert address in one.adapter("telegram")["proxy"]
        assert one.stop() == 0
    finally:
        proxy.stop()


def test_a_proxy_that_is_away_is_named(host, telegram, isolation):
    away = f"127.0.0.1:{free_port()}"
    one = host(HEADER + section(telegram, isolation), env={"http_proxy": away}).start()

    def reason():
        found = one.adapter("telegram")
        return found and f"proxy {away} refused the connection" in (found.get("reason") or "")

    until("the reason names the proxy", reason)
    one.stop()


def test_an_invalid_proxy_is_a_problem_of_the_configuration(host, telegram):
    one = host(HEADER + section(telegram, "in-process"), env={"HTTPS_PROXY": "ftp://lovelace:hunter2hunter2@127.0.0.1:1"})
    done = one.cli("config", "check", check=False)
    assert done.returncode != 0 and "HTTPS_PROXY" in done.stderr and "socks5h://" in done.stderr, done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    assert json.loads(one.cli("config", "schema").stdout)["properties"]["host"]["properties"]["proxy"]
