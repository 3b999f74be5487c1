"""A Bot API that does as it is told: the stage of this adapter. Needs nothing but Python.

What it is told and answers stands in `adapter-sdk/conformance/src/stage.rs`. It knows the methods that the adapter
calls, refuses what the server refuses, and forgets an update once a poll asks for a later one.
"""

import http.server
import json
import os
import socket
import sys
import threading
import time

BOT = {"id": 4242, "is_bot": True, "first_name": "Hermes", "username": "hermes_bot"}
GROUP = {"id": -100, "type": "supergroup", "title": "Certify", "is_forum": True}
TEXT_LIMIT_UTF16 = 4096


class Refused(Exception):
    def __init__(self, code, text, **parameters):
        super().__init__(text)
        self.code, self.text, self.parameters = code, text, parameters


class Platform:
    """Everything there is; whoever changes it says so."""

    def __init__(self):
        self.changed = threading.Condition()
        self.updates, self.update_id, self.message_id = [], 100, 1
        self.by_id, self.written, self.topics, self.files = {}, [], [], {}
        self.faults, self.cuts, self.silent, self.expired = [], 0, False, False

    def fault(self, kind):
        """Takes a fault that waits for the next request of its kind."""
        for fault in self.faults:
            if fault["kind"] in kind:
                self.faults.remove(fault)
                return fault
        return None

    # --- what is told on standard input

    def inbound(self, said):
        if "again" in said:
            # The same message under another number, as after a lost confirmation.
            self.update_id += 1
            self.updates.append({**self.by_id[said["again"]], "update_id": self.update_id})
            return {}
        chat, sender, place = said["chat"], said.get("from", 1), {}
        author = {"id": sender, "is_bot": False, "first_name": f"Person {sender}"}
        if said.get("bot"):
            author = {"id": 77, "is_bot": True, "first_name": "Another bot", "username": "another_bot"}
        if said.get("own"):
            author = BOT
        if chat == "dm":
            chat = {"id": sender, "type": "private", "first_name": author["first_name"]}
        elif chat == "group":
            chat = GROUP
        else:
            if chat.get("thread"):
                place = {"message_thread_id": int(chat["thread"]), "is_topic_message": True}
            chat = GROUP if int(chat["id"]) == GROUP["id"] else {"id": int(chat["id"]), "type": "private", "first_name": "Person"}
        self.message_id += 1
        self.update_id += 1
        message = {"message_id": self.message_id, "date": int(time.time()), "chat": chat, "from": author, "text": said["text"], **place}
        if "file" in said:
            file_id, data = f"F{self.message_id}", said["file"]["text"].encode()
            self.files[file_id] = data
            message["caption"] = message.pop("text")
            message["document"] = {"file_id": file_id, "file_name": said["file"]["name"], "file_size": len(data)}
        update = {"update_id": self.update_id, "message": message}
        self.updates.append(update)
        self.by_id[str(self.update_id)] = update
        return {"id": str(self.update_id)}

    def break_down(self, fault):
        kind = fault["kind"]
        if kind == "none":
            self.faults.clear()
            self.silent = self.expired = False
        elif kind == "silence":
            self.silent = True
        elif kind == "expired":
            self.expired = True
        elif kind == "cut":
            self.cuts += 1
        elif kind in ("429", "5xx", "malformed", "file"):
            self.faults.append(fault)
        else:
            return {"unsupported": f"there is no {kind} here"}
        return {}

    def obey(self, line):
        with self.changed:
            try:
                if "inbound" in line:
                    return self.inbound(line["inbound"])
                if "fault" in line:
                    return self.break_down(line["fault"])
                if "journal" in line:
                    return {"journal": self.written}
                return {"unsupported": f"nobody here knows {sorted(line)}"}
            finally:
                self.changed.notify_all()

    # --- what the adapter asks for

    def call(self, method, asked):
        if method == "getMe":
            return BOT
        if method == "getChat":
            known = {GROUP["id"]: GROUP, 1: {"id": 1, "type": "private", "first_name": "Person 1"}}.get(asked["chat_id"])
            if not known:
                raise Refused(400, "Bad Request: chat not found")
            return known
        if method == "sendMessage":
            return self.send(asked)
        if method == "sendDocument" and self.fault(("file",)):
            raise Refused(400, "Bad Request: not enough rights to send documents to the chat")
        if method == "getFile":
            if asked["file_id"] not in self.files:
                raise Refused(400, "Bad Request: wrong file_id or the file is temporarily unavailable")
            return {"file_id": asked["file_id"], "file_path": f"documents/{asked['file_id']}"}
        if method == "editMessageText":
            return {"message_id": asked["message_id"], "date": int(time.time())}
        if method == "createForumTopic":
            self.message_id += 1
            self.topics.append(self.message_id)
            return {"message_thread_id": self.message_id, "name": asked["name"], "icon_color": 7322096}
        if method in ("deleteWebhook", "setMyCommands", "sendChatAction", "answerCallbackQuery", "editForumTopic"):
            return True
        raise Refused(404, "Not Found")

    def send(self, asked):
        fault = self.fault(("429", "5xx"))
        if fault and fault["kind"] == "429":
            wait = fault.get("retry_after_s", 1)
            raise Refused(429, f"Too Many Requests: retry after {wait}", retry_after=wait)
        if fault:
            raise Refused(502, "Bad Gateway")
        if len(asked["text"].encode("utf-16-le")) // 2 > TEXT_LIMIT_UTF16:
            raise Refused(400, "Bad Request: message is too long")
        if asked.get("message_thread_id") not in (None, *self.topics):
            raise Refused(400, "Bad Request: message thread not found")
        self.message_id += 1
        self.written.append({"chat": str(asked["chat_id"]), "thread": asked.get("message_thread_id"), "text": asked["text"]})
        return {"message_id": self.message_id, "date": int(time.time())}

    def poll(self, asked):
        """The updates from an offset on, as soon as there are any; `None` when the line is cut."""
        until, cuts = time.monotonic() + float(asked.get("timeout", 0)), self.cuts
        while True:
            if self.expired:
                raise Refused(401, "Unauthorized")
            if self.silent or self.cuts != cuts:
                return None
            self.updates = [update for update in self.updates if update["update_id"] >= asked.get("offset", 0)]
            left = until - time.monotonic()
            if self.updates or left <= 0:
                return self.updates
            self.changed.wait(left)


PLATFORM = Platform()


class BotApi(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        is_form = self.headers.get("content-type", "").startswith("multipart/form-data")
        asked = {} if is_form else json.loads(body or b"{}")
        method = self.path.rsplit("/", 1)[-1]
        with PLATFORM.changed:
            while PLATFORM.silent:
                PLATFORM.changed.wait()
            try:
                if PLATFORM.expired:
                    raise Refused(401, "Unauthorized")
                result = PLATFORM.poll(asked) if method == "getUpdates" else PLATFORM.call(method, asked)
                body = {"ok": True, "result": result}
                if method == "getUpdates" and result and PLATFORM.fault(("malformed",)):
                    body["result"] = [{"update_id": result[0]["update_id"], "message": {"message_id": "no number"}}, 7]
                    # What is not understood is confirmed; what it stood for comes behind it.
                    PLATFORM.update_id += 1
                    again = {**result[0], "update_id": PLATFORM.update_id}
                    PLATFORM.updates = [*PLATFORM.updates[1:], again]
            except Refused as refused:
                result = refused
                body = {"ok": False, "error_code": refused.code, "description": refused.text, "parameters": refused.parameters}
            while PLATFORM.silent:
                PLATFORM.changed.wait()
        if result is None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.reply(result.code if isinstance(result, Refused) else 200, body)

    def do_GET(self):
        with PLATFORM.changed:
            data = PLATFORM.files.get(self.path.rsplit("/", 1)[-1])
        self.answer(200 if data else 404, "application/octet-stream", data or b"")

    def reply(self, code, body):
        self.answer(code, "application/json", json.dumps(body).encode())

    def answer(self, code, kind, data):
        try:
            self.send_response(code)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            pass  # Whoever asked did not wait.


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), BotApi)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps({"base_url": f"http://127.0.0.1:{server.server_port}"}), flush=True)
    for line in sys.stdin:
        print(json.dumps(PLATFORM.obey(json.loads(line))), flush=True)
    # Requests that are held back hold up nobody.
    os._exit(0)


if __name__ == "__main__":
    main()
