"""An authority of our own, and certificates that it has signed."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

__all__ = ["Certificates"]


class Certificates:
    """Made anew for a run, by openssl."""

    def __init__(self, folder: Path) -> None:
        self.authority = folder / "authority.pem"
        self.client = folder / "client.pem"
        """A certificate and its key, which a server may ask a client for."""

        self._server = folder / "localhost.pem"
        key = folder / "authority.key"
        self._openssl("req", "-x509", *_NEW_KEY, "-subj", "/CN=authority", "-keyout", key, "-out", self.authority)
        for path, name in ((self._server, "localhost"), (self.client, "client")):
            request, extra = path.with_suffix(".csr"), path.with_suffix(".ext")
            extra.write_text(f"subjectAltName=DNS:{name}")
            self._openssl("req", *_NEW_KEY, "-subj", f"/CN={name}", "-keyout", path, "-out", request)
            signed = self._openssl(
                "x509",
                "-req",
                "-in",
                request,
                "-CA",
                self.authority,
                "-CAkey",
                key,
                "-CAcreateserial",
                "-extfile",
                extra,
            )
            path.write_bytes(path.read_bytes() + signed)

    def server(self, *, ask_clients: bool = False) -> ssl.SSLContext:
        """What a server for `localhost` speaks."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._server)
        if ask_clients:
            context.load_verify_locations(self.authority)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    @staticmethod
    def _openssl(*words: str | Path) -> bytes:
        return subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True).stdout


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
