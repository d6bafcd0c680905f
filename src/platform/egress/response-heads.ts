// Prepares the heads of responses for undici, which accepts less than a client must: drops informational responses (RFC 9110
// section 15.2), and mends what RFC 9112 tells recipients to mend. Bodies pass unchanged.
import type { Duplex } from 'node:stream';
import { EgressFault } from '../base/egress-fault.ts';

/** Interim heads of one response: one each second for a minute and a half, or early hints in many parts. */
const INTERIM_MAX = 100;
const INTERIM_BYTES_MAX = 65_536;

/** A longer head is passed on at once: the parser refuses it. */
const HEAD_BYTES_MAX = 65_536;

const VERSION = Buffer.from('HTTP/1.');
const LF = 0x0a;
const CR = 0x0d;
const TAB = 0x09;
const SPACE = 0x20;
const COLON = 0x3a;

/** 101 ends HTTP on the connection, and the vault never asks for an upgrade (RFC 9110 section 15.2.2). */
const interim = /^HTTP\/1\.[0-9] 1(?!01)[0-9]{2}[ \r\n]/;

/** A later minor version is read as the one that the client knows (RFC 9110 section 2.5). */
const laterVersion = /^HTTP\/1\.[2-9](?= )/;

// A destination may send tens of thousands of blanks. No expression here begins with a repeated blank, which would be tried from
// each of them.

/** Section 5.2: a folded line is part of the line before it. */
const fold = /\r\n[\t ]+/g;

/** Section 5.1. */
const blankBeforeColon = /(\r\n[!#$%&'*+.^_`|~0-9A-Za-z-]+)[\t ]+:/g;

/** Blanks of header lines: the status line ends with a blank if it has no reason. */
const blanksAtEnd = /(\r\n[^\r\n]*[^\t\r\n ])[\t ]+(?=\r\n)/g;

const lengths = /\r\ncontent-length:([^\r\n]*)(?=\r\n)/gi;

/** Equal lengths are one, in one line or in several (section 6.3), and blanks around a value are none of it. */
const mendLengths = (head: string): string => {
  const values = Array.from(head.matchAll(lengths), ([, value = '']) => value.split(',')).flat();
  const [first, ...others] = values.map((each) => /^[\t ]*([0-9]+)[\t ]*$/.exec(each)?.[1]);
  if (first === undefined || others.some((each) => each !== first)) return head;
  let isFirst = true;
  return head.replace(lengths, (line) => {
    const mended = isFirst ? `${line.slice(0, line.indexOf(':') + 1)} ${first}` : '';
    isFirst = false;
    return mended;
  });
};

/** What a head has that needs to be mended. */
const unsound = /\r\n[\t ]|[\t ](?::|\r\n)|^HTTP\/1\.[2-9]/;
const plainLength = /\r\ncontent-length: ?[0-9]+(?=\r\n)/i;

const isSound = (head: string): boolean =>
  !unsound.test(head) &&
  (head.match(/\r\ncontent-length:/gi) ?? []).every((_, index) => index === 0 && plainLength.test(head));

/** @param head of one response, with its last empty line. @returns it as RFC 9112 tells recipients to read it. */
export const mendHead = (head: Buffer): Buffer => {
  const text = head.toString('latin1');
  if (isSound(text)) return head;
  const whole = text
    .replace(laterVersion, 'HTTP/1.1')
    .replace(fold, ' ')
    .replace(blankBeforeColon, '$1:')
    .replace(blanksAtEnd, '$1');
  return Buffer.from(mendLengths(whole), 'latin1');
};

/** Follows one head byte by byte: a destination may send it in thousands of pieces. */
const createFollower = () => {
  let bytes = 0;
  let lines = 0;
  let lineBytes = 0;
  let isField = false;
  /** @returns the index after the head; 'broken' for what is no head; undefined if more follows. */
  return (chunk: Buffer): number | 'broken' | undefined => {
    for (let at = 0; at < chunk.length; at += 1) {
      const byte = chunk[at] as number;
      if (bytes < VERSION.length && byte !== VERSION[bytes]) return 'broken';
      bytes += 1;
      if (byte === CR) continue;
      if (byte === LF) {
        if (lineBytes === 0) return at + 1;
        if (lines > 0 && !isField) return 'broken';
        lines += 1;
        lineBytes = 0;
        isField = false;
        continue;
      }
      if ((byte < SPACE && byte !== TAB) || bytes > HEAD_BYTES_MAX) return 'broken';
      // A folded line needs no colon.
      if (byte === COLON || (lineBytes === 0 && (byte === SPACE || byte === TAB))) isField = true;
      lineBytes += 1;
    }
    return undefined;
  };
};

export type ResponseHeads = {
  /** A request begins: the next bytes are the head of a response. */
  expect(): void;
};

/** Changes what `read()` of the socket returns. undici reads in no other way. */
export const mendHeads = (socket: Duplex): ResponseHeads => {
  const read = socket.read.bind(socket) as (size?: number) => Buffer | null;
  let follow: ReturnType<typeof createFollower> | undefined;
  let held: Buffer[] = [];
  let interims = 0;
  let interimBytes = 0;

  const takeHeld = (): Buffer => {
    const whole = held.length === 1 ? (held[0] as Buffer) : Buffer.concat(held);
    held = [];
    return whole;
  };

  /** @returns what the parser gets of a piece; undefined for nothing. */
  const take = (piece: Buffer): Buffer | undefined => {
    let rest = piece;
    for (;;) {
      const end: number | 'broken' | undefined = follow?.(rest);
      if (end === undefined) {
        held.push(rest);
        return undefined;
      }
      if (end === 'broken') {
        held.push(rest);
        follow = undefined;
        return takeHeld();
      }
      held.push(rest.subarray(0, end));
      rest = rest.subarray(end);
      const head = takeHeld();
      if (!interim.test(head.toString('latin1', 0, 16))) {
        follow = undefined;
        const sound = mendHead(head);
        return rest.length === 0 ? sound : Buffer.concat([sound, rest]);
      }
      interims += 1;
      interimBytes += head.length;
      if (interims > INTERIM_MAX || interimBytes > INTERIM_BYTES_MAX) {
        socket.destroy(
          new EgressFault('PROTOCOL', { sentence: 'The destination sent too many informational responses.' }),
        );
        return undefined;
      }
      follow = createFollower();
      if (rest.length === 0) return undefined;
    }
  };

  socket.read = (size?: number): Buffer | null => {
    for (;;) {
      const piece = read(size);
      if (piece === null || follow === undefined) return piece;
      const given = take(piece);
      if (given !== undefined) return given;
    }
  };
  return {
    expect: () => {
      follow = createFollower();
      held = [];
      interims = 0;
      interimBytes = 0;
    },
  };
};
