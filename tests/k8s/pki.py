# SPDX-License-Identifier: Apache-2.0
"""The certificates of one test cluster, made by openssl: one authority signs all of them."""

import os
import subprocess

CONFIG = """\
[req]
distinguished_name = name
prompt = no
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, digitalSignature
subjectKeyIdentifier = hash
[leaf]
basicConstraints = CA:FALSE
keyUsage = digitalSignature
extendedKeyUsage = serverAuth, clientAuth
"""
NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


def openssl(*args):
    done = subprocess.run(["openssl", *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"openssl {args[0]}: {done.stderr}"


class Pki:
    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, mode=0o700)
        self.config = os.path.join(folder, "openssl.cnf")
        with open(self.config, "w", encoding="ascii") as f:
            f.write(CONFIG)
        self.ca = os.path.join(folder, "ca.crt")
        self.ca_key = os.path.join(folder, "ca.key")
        openssl(
            "req",
            "-x509",
            "-config",
            self.config,
            "-extensions",
            "authority",
            *NEW_KEY,
            "-days",
            "3650",
            "-subj",
            "/CN=divvy-test-ca",
            "-keyout",
            self.ca_key,
            "-out",
            self.ca,
        )

    def sign(self, name, common_name, organizations=(), alternatives=""):
        """(certificate, key), as files."""
        cert, key = (os.path.join(self.folder, f"{name}.{end}") for end in ("crt", "key"))
        parts = [f"O={o}" for o in organizations] + [f"CN={common_name}"]
        subject = "".join("/" + p.replace("\\", "\\\\").replace("/", "\\/") for p in parts)
        openssl(
            "req",
            "-x509",
            "-config",
            self.config,
            "-extensions",
            "leaf",
            *NEW_KEY,
            "-days",
            "3650",
            "-CA",
            self.ca,
            "-CAkey",
            self.ca_key,
            "-subj",
            subject,
            "-keyout",
            key,
            "-out",
            cert,
            *(["-addext", "subjectAltName=" + alternatives] if alternatives else []),
        )
        return cert, key

    def key_pair(self, name):
        """(private, public), for signing tokens."""
        private, public = (os.path.join(self.folder, f"{name}.{end}") for end in ("key", "pub"))
        openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", private)
        openssl("pkey", "-in", private, "-pubout", "-out", public)
        return private, public
