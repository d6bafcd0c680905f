"""Decrypts a file of `strongroom export`, and checks it. Needs Python 3.8 and the package `cryptography` only.
Usage: python3 decrypt-export.py KEYFILE FILE > tokens.jsonl    (the format: https://age-encryption.org/v1)"""
import base64, hashlib, hmac, json, sys
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

CHUNK = 64 * 1024 + 16

def secret_key(line):  # Bech32 (BIP 173): five bits a character, six characters of checksum
    bits = "".join(f"{'qpzry9x8gf2tvdw0s3jn54khce6mua7l'.index(c):05b}" for c in line.lower().split("1", 1)[1][:-6])
    return bytes(int(bits[at:at + 8], 2) for at in range(0, 256, 8))

def unbase64(text):
    return base64.b64decode(text + b"=" * (-len(text) % 4))

def hkdf(secret, salt, info):
    return HKDF(SHA256(), 32, salt, info).derive(secret)

def file_key(stanzas, keys):
    for key in keys:
        private = X25519PrivateKey.from_private_bytes(key)
        public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        for share, body in stanzas:
            shared = private.exchange(X25519PublicKey.from_public_bytes(share))
            wrapping = hkdf(shared, share + public, b"age-encryption.org/v1/X25519")
            try:
                return ChaCha20Poly1305(wrapping).decrypt(bytes(12), body, None)
            except Exception:
                continue
    sys.exit("No key in the key file opens this file.")

def chunks(file, keys):
    header, stanzas, line = b"", [], file.readline()
    while not line.startswith(b"---"):
        if line == b"":
            sys.exit("The file ends within its header, or is no export.")
        if line.startswith(b"-> X25519 "):
            stanzas.append((unbase64(line.split()[2]), unbase64(file.peek(64).split(b"\n")[0])))
        header, line = header + line, file.readline()
    key = file_key(stanzas, keys)
    mac = hmac.new(hkdf(key, b"", b"header"), header + b"---", hashlib.sha256).digest()
    assert hmac.compare_digest(mac, unbase64(line[4:].strip())), "The header was changed."
    payload = ChaCha20Poly1305(hkdf(key, file.read(16), b"payload"))
    counter, chunk = 0, file.read(CHUNK)
    while chunk:  # the nonce has a counter, and 1 for the last chunk: a file that was cut off does not decrypt
        following = file.read(CHUNK)
        yield payload.decrypt(counter.to_bytes(11, "big") + (b"\0" if following else b"\1"), chunk, None)
        counter, chunk = counter + 1, following

with open(sys.argv[1]) as lines:
    keys = [secret_key(line.strip()) for line in lines if line.startswith("AGE-SECRET-KEY-1")]
digest, rest, last = hashlib.sha256(), b"", b""
with open(sys.argv[2], "rb") as file:
    for plain in chunks(file, keys):
        *lines, rest = (rest + plain).split(b"\n")
        for line in lines:
            digest.update(last)
            last = line + b"\n"
            sys.stdout.buffer.write(last)
assert json.loads(last)["end"]["sha256"] == digest.hexdigest(), "The checksum of the last line is another."
