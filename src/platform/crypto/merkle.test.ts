// Merkle trees against the vectors of the reference implementation of RFC 6962, and signed notes against changes.
import { generateKeyPairSync } from 'node:crypto';
import { expect, test } from 'vitest';
import { append, collectProof, emptyFrontier, leafHash, nodeHash, proofRanges, rootOf, rootOfProof } from './merkle.ts';
import {
  newSigningKeyPem,
  openCheckpoint,
  parsePublicKey,
  parseSigningKey,
  publicKeyText,
  signCheckpoint,
  signingKeyOfSeed,
  verifierKeyText,
} from './signed-note.ts';

const entries = ['', '00', '10', '2021', '3031', '40414243', '5051525354555657', '606162636465666768696a6b6c6d6e6f'];
const leaves = entries.map((hex) => leafHash(Buffer.from(hex, 'hex').toString('latin1')));
const roots = [
  'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
  'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
  'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
  'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
  '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
  'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
  '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
];

const proofOf = (of: readonly Buffer[], index: number): Buffer[] => {
  const proof = collectProof(index, of.length);
  for (const [at, leaf] of of.entries()) proof.add(at, leaf);
  return proof.end();
};

test('roots of zero to eight leaves', () => {
  const tree = emptyFrontier();
  expect(rootOf(tree).toString('hex')).toBe(roots[0]);
  for (const [at, leaf] of leaves.entries()) {
    append(tree, leaf);
    expect(rootOf(tree).toString('hex')).toBe(roots[at + 1]);
  }
});

test('inclusion proofs: the vectors, every leaf of every size, and none that was changed', () => {
  const hex = (index: number, size: number) =>
    proofOf(leaves.slice(0, size), index).map((each) => each.toString('hex'));
  expect(hex(0, 1)).toEqual([]);
  expect(hex(5, 8)).toEqual([
    'bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b',
    'ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0',
    roots[4],
  ]);
  expect(hex(2, 3)).toEqual([roots[2]]);
  expect(hex(1, 5)).toEqual([
    roots[1],
    '5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e',
    'bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b',
  ]);
  const tree = emptyFrontier();
  const many = Array.from({ length: 20 }, (_, at) => leafHash(`entry ${at}`));
  for (let size = 1; size <= many.length; size += 1) {
    append(tree, many[size - 1] as Buffer);
    for (let index = 0; index < size; index += 1) {
      const proof = proofOf(many.slice(0, size), index);
      expect(rootOfProof(index, size, many[index] as Buffer, proof)).toEqual(rootOf(tree));
      expect(rootOfProof(index, size, many[(index + 1) % 20] as Buffer, proof)).not.toEqual(rootOf(tree));
      if (proof.length > 0) expect(rootOfProof(index, size, many[index] as Buffer, proof.slice(1))).toBeUndefined();
    }
  }
  expect(rootOfProof(8, 8, leaves[0] as Buffer, [])).toBeUndefined();
});

test('a proof is collected from subtrees as from leaves', () => {
  const proof = collectProof(6, 8);
  proof.add(
    0,
    nodeHash(nodeHash(leaves[0] as Buffer, leaves[1] as Buffer), nodeHash(leaves[2] as Buffer, leaves[3] as Buffer)),
    2,
  );
  for (let at = 4; at < 8; at += 1) proof.add(at, leaves[at] as Buffer);
  expect(proof.end()).toEqual(proofOf(leaves, 6));
  expect(proofRanges(6, 8)).toHaveLength(3);
  const missing = collectProof(6, 8);
  missing.add(7, leaves[7] as Buffer);
  expect(() => missing.end()).toThrow('leaves are missing');
});

const TENANT = '0193a5f0-0000-4000-8000-000000000000';
const key = signingKeyOfSeed(Buffer.alloc(32, 1));
const checkpoint = {
  tenant_id: TENANT,
  size: 8,
  root: rootOf({ size: 1, hashes: [leaves[0] as Buffer] }),
  at: new Date(0),
};

test('a checkpoint opens with its key, and with no other size, root, time, tenant or key', () => {
  const note = signCheckpoint(key, checkpoint);
  expect(note).toMatch(
    /^strongroom\/0193a5f0-[0-9a-f-]{27}\n8\nbjQLnP.{38}\ntime 1970-01-01T00:00:00\.000Z\n\n— strongroom\/\S+ \S+\n$/,
  );
  expect(openCheckpoint(note, [key.publicKey])).toEqual(checkpoint);
  const other = signingKeyOfSeed(Buffer.alloc(32, 2));
  expect(openCheckpoint(note, [other.publicKey])).toBeUndefined();
  // A key of today and one of before.
  expect(openCheckpoint(note, [other.publicKey, key.publicKey])).toEqual(checkpoint);
  const signature = note.slice(note.indexOf('\n\n') + 2);
  const changes = [
    note.replace('\n8\n', '\n9\n'),
    note.replace('\n8\n', '\n08\n'),
    note.replace('bjQL', 'bjQM'),
    note.replace('1970', '1971'),
    note.replaceAll('0193a5f0', '0193a5f1'),
    note.replace('\n\n', '\nmore\n\n'),
    note.slice(0, -signature.length),
    note.replace(/(?<=— \S+ .{20})./, (char) => (char === 'A' ? 'B' : 'A')),
  ];
  for (const changed of changes) expect(openCheckpoint(changed, [key.publicKey])).toBeUndefined();
  // Signatures of others, such as witnesses, are ignored.
  expect(openCheckpoint(`${note}— witness.example AAAA\n`, [key.publicKey])).toEqual(checkpoint);
});

test('keys are read as they are written, and nothing else is a key', () => {
  const pem = newSigningKeyPem();
  const parsed = parseSigningKey(pem);
  const der = pem.replaceAll(/-----.*-----|\n/g, '');
  expect(parseSigningKey(der)?.publicKey.bytes).toEqual(parsed?.publicKey.bytes);
  const publicKey = parsed?.publicKey ?? key.publicKey;
  expect(parsePublicKey(publicKeyText(publicKey))?.bytes).toEqual(publicKey.bytes);
  expect(parsePublicKey(verifierKeyText(TENANT, publicKey))?.bytes).toEqual(publicKey.bytes);
  // The example of golang.org/x/mod/sumdb/note.
  expect(parsePublicKey('PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW')?.bytes).toHaveLength(32);
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'pem', type: 'pkcs8' });
  for (const text of ['', 'x', der.slice(4), rsa as string, pem.slice(40)])
    expect(parseSigningKey(text)).toBeUndefined();
  for (const text of ['', 'x', publicKeyText(publicKey).slice(4), 'a+00000000+AAAA'])
    expect(parsePublicKey(text)).toBeUndefined();
});
