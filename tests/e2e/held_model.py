"""A model that answers when it is told to, and remembers word for word what it was asked."""

import http.server
import json
import threading


class HeldModel:
    """Serves chat completions; while `held`, nothing is answered."""

    def __init__(self, answer=lambda said: f"answer to <{said[:40]}>"):
        self.requests, self.go = [], threading.Event()
        self.go.set()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                self.reply("application/json", b'{"object": "list", "data": []}')

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.requests.append(body["messages"])
                outer.go.wait()
                text = answer(body["messages"][-1]["content"])
                try:
                    self.say(text, body.get("stream"))
                except OSError:
                    pass  # Whoever asked is gone.

            def say(self, text, streamed):
                if not streamed:
                    message = {"role": "assistant", "content": text}
                    body = {"id": "1", "object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
                    return self.reply("application/json", json.dumps(body).encode())
                lines = []
                for delta, end in (({"role": "assistant", "content": text}, None), ({}, "stop")):
                    choice = {"index": 0, "delta": delta, "finish_reason": end}
                    lines.append(f"data: {json.dumps({'id': '1', 'object': 'chat.completion.chunk', 'choices': [choice]})}\n\n")
                return self.reply("text/event-stream", ("".join(lines) + "data: [DONE]\n\n").encode())

            def reply(self, kind, body):
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.base = f"http://127.0.0.1:{self.server.server_port}"

    def hold(self):
        self.go.clear()

    def release(self):
        self.go.set()

    def asked(self, words):
        """The requests whose last message contains these words."""
        return [messages for messages in list(self.requests) if words in messages[-1]["content"]]

    def stop(self):
        self.release()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
