"""A real server on this machine, and a plain client for it."""

import http.client
import json
import threading
import time
from contextlib import contextmanager
from socket import create_server
from types import SimpleNamespace
from urllib.parse import urlencode


class Client:
    """Asks a server on loopback; keeps cookies, as a browser would."""

    def __init__(self, port):
        self.port, self.cookie = port, None
        self.address = f"http://127.0.0.1:{port}"

    def ask(self, method, path, *, params=None, json_=None, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=240)
        headers = dict(headers or {})
        if json_ is not None:
            body, headers["content-type"] = json.dumps(json_), "application/json"
        if self.cookie:
            headers["cookie"] = self.cookie
        try:
            connection.request(method, f"{path}?{urlencode(params)}" if params else path, body, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        said = {name.lower(): value for name, value in answer.getheaders()}
        if "set-cookie" in said:
            self.cookie = said["set-cookie"].partition(";")[0]
        return SimpleNamespace(status=answer.status, text=text, headers=said, json=lambda: json.loads(text))

    def get(self, path, **params):
        return self.ask("GET", path, params=params)

    def post(self, path, **body):
        return self.ask("POST", path, json_=body)


@contextmanager
def serving(app):
    """The application behind a real socket, for as long as the block runs."""
    import uvicorn

    with create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", server_header=False, lifespan="on"))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield Client(listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join()
