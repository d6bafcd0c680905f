// The seccomp filter of an executor: a BPF program that lets the listed system calls through and makes all others fail.
// man 2 seccomp; linux/filter.h, linux/seccomp.h, linux/audit.h.
import { allowedCalls, type Condition, type SystemCall, UNKNOWN_CALLS, userCalls } from './system-calls.ts';

export type Architecture = 'x64' | 'arm64';

/** AUDIT_ARCH_X86_64 and AUDIT_ARCH_AARCH64: the architecture that the kernel reports for a call. */
const auditArchitectures: Record<Architecture, number> = { x64: 0xc000_003e, arm64: 0xc000_00b7 };

const LOAD = 0x20;
const JUMP_IF_EQUAL = 0x15;
const JUMP_IF_AT_LEAST = 0x35;
const JUMP_IF_ANY_BIT = 0x45;
const RETURN = 0x06;

const KILL_PROCESS = 0x8000_0000;
const ALLOW = 0x7fff_0000;
const failWith = (errno: number): number => 0x0005_0000 | errno;
const EPERM = 1;
const ENOSYS = 38;

/** Of struct seccomp_data: the number, the architecture, and the lower halves of the arguments. Both architectures are little-endian. */
const NUMBER_AT = 0;
const ARCHITECTURE_AT = 4;
const argumentAt = (argument: number): number => 16 + 8 * argument;

/** Numbers of the x32 ABI begin here: the same calls by other numbers. */
const X32_FROM = 0x4000_0000;

type Instruction = [code: number, ifTrue: number, ifFalse: number, value: number | 'OWN_PROCESS'];

/** Where the launcher writes the id of its process, which stays when it becomes the executor. Eight digits, none of them hexadecimal. */
export const OWN_PROCESS_MARK = 'OWN_PROC';

const give = (result: number): Instruction => [RETURN, 0, 0, result];

/** Instructions that allow or refuse a call by its argument. */
const judge = (condition: Condition): Instruction[] => {
  const load: Instruction = [LOAD, 0, 0, argumentAt(condition.argument)];
  if ('isOneOf' in condition) {
    const values = condition.isOneOf;
    const compare = values.map((value, index): Instruction => [JUMP_IF_EQUAL, values.length - index, 0, value]);
    return [load, ...compare, give(failWith(EPERM)), give(ALLOW)];
  }
  const { hasBit, hasNone } = condition;
  return [
    load,
    ...(hasBit === undefined ? [] : [[JUMP_IF_ANY_BIT, 0, 2, hasBit] as Instruction]),
    [JUMP_IF_ANY_BIT, 1, 0, hasNone],
    give(ALLOW),
    give(failWith(EPERM)),
  ];
};

const forCall = (number: number, body: Instruction[]): Instruction[] => [
  [JUMP_IF_EQUAL, 0, body.length, number],
  ...body,
];

/** An instruction as struct sock_filter, in hexadecimal. */
const encode = ([code, ifTrue, ifFalse, value]: Instruction): string => {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt16LE(code, 0);
  bytes.writeUInt8(ifTrue, 2);
  bytes.writeUInt8(ifFalse, 3);
  if (value === 'OWN_PROCESS') return bytes.toString('hex', 0, 4) + OWN_PROCESS_MARK;
  bytes.writeUInt32LE(value >>> 0, 4);
  return bytes.toString('hex');
};

/**
 * @param mayChangeUser for a root executor, which changes to an unprivileged user itself.
 * @returns the program in hexadecimal, with marks for the process's own id. A call of another architecture ends the process.
 */
export const makeFilter = (architecture: Architecture, mayChangeUser: boolean): string => {
  const program: Instruction[] = [
    [LOAD, 0, 0, ARCHITECTURE_AT],
    [JUMP_IF_EQUAL, 1, 0, auditArchitectures[architecture]],
    give(KILL_PROCESS),
    [LOAD, 0, 0, NUMBER_AT],
    [JUMP_IF_AT_LEAST, 0, 1, X32_FROM],
    give(KILL_PROCESS),
  ];
  for (const call of UNKNOWN_CALLS) program.push(...forCall(call[architecture], [give(failWith(ENOSYS))]));
  const calls: SystemCall[] = [...allowedCalls, ...(mayChangeUser ? userCalls : [])];
  for (const call of calls) {
    const number = call[architecture];
    if (number !== null) program.push(...forCall(number, call.when ? judge(call.when) : [give(ALLOW)]));
  }
  program.push(give(failWith(EPERM)));
  return program.map(encode).join('');
};
