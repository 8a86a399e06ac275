"""An issuer of OAuth tokens on the loopback address: a token endpoint, and the keys to check them.

It knows clients by their id and secret, as an OpenID provider does; a broker gets its keys by JWKS.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote_plus

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

AUDIENCE, SCOPE = "kafka", "records"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class TokenIssuer:
    """Listens with http, and with https if there is a certificate (a PEM with key and chain).

    `lifetime` is that of new tokens, in seconds; with a `status` other than 200, the token
    endpoint answers that alone. `requests` counts the tokens asked for; `issued` are all tokens.
    """

    def __init__(self, clients: Mapping[str, str], certificate: Path | None = None) -> None:
        self.clients = clients
        self.lifetime, self.status, self.requests = 300.0, 200, 0
        self.issued: list[str] = []
        self._key = rsa.generate_private_key(65537, 2048)
        self._servers = [self._listen(None)]
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._servers.append(self._listen(context))

    @property
    def name(self) -> str:
        """The issuer that its tokens name."""
        return self._url(0)

    @property
    def token_url(self) -> str:
        return f"{self._url(0)}/token"

    @property
    def https_token_url(self) -> str:
        return f"{self._url(1)}/token"

    @property
    def jwks_url(self) -> str:
        return f"{self._url(0)}/keys"

    def token(self, subject: str, *, lifetime: float | None = None, ahead: float = 0) -> str:
        """Return a token of a clock that is `ahead` by seconds; its lifetime may be negative."""
        now = time.time() + ahead
        claims = {"iss": self.name, "aud": AUDIENCE, "sub": subject, "scope": SCOPE}
        times = {"iat": int(now), "nbf": int(now), "exp": int(now + (lifetime or self.lifetime))}
        parts = ({"alg": "RS256", "kid": "1"}, claims | times)
        signed = ".".join(_base64(json.dumps(part).encode()) for part in parts)
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        self.issued.append(f"{signed}.{_base64(signature)}")
        return self.issued[-1]

    def stop(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def _url(self, number: int) -> str:
        return f"http{'s' * number}://localhost:{self._servers[number].server_port}"

    def _listen(self, context: ssl.SSLContext | None) -> ThreadingHTTPServer:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                key = issuer._key.public_key().public_numbers()
                shown = {"n": _base64(key.n.to_bytes(256, "big")), "e": "AQAB"}
                form = {"kty": "RSA", "kid": "1", "alg": "RS256", "use": "sig"}
                self._answer(200, {"keys": [form | shown]})

            def do_POST(self) -> None:
                issuer.requests += 1
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = {key: values[0] for key, values in parse_qs(body).items()}
                client, secret = self._login(form)
                if issuer.status != 200:
                    self._answer(issuer.status, {"error": "temporarily_unavailable"})
                elif client not in issuer.clients or secret != issuer.clients[client]:
                    self._answer(401, {"error": "invalid_client"})
                elif form.get("grant_type") != "client_credentials":
                    self._answer(400, {"error": "unsupported_grant_type"})
                else:
                    token = {"access_token": issuer.token(client), "token_type": "Bearer"}
                    self._answer(200, token | {"expires_in": int(issuer.lifetime)})

            def _login(self, form: Mapping[str, str]) -> tuple[str, str]:
                kind, _, value = self.headers.get("Authorization", "").partition(" ")
                if kind == "Basic":
                    client, _, secret = base64.b64decode(value).decode().partition(":")
                    return unquote_plus(client), unquote_plus(secret)
                return form.get("client_id", ""), form.get("client_secret", "")

            def _answer(self, status: int, document: Mapping[str, Any]) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        if context:
            # The handshake is made by the thread that answers: a client that is silent stops none.
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server
