// Variables of tenants' code and of outgoing requests.
import { z } from 'zod';
import { memoryTotalMbLeast } from '../sandbox/protocol/sandbox.ts';
import { RUN_MS } from '../base/times.ts';
import { hosts, wholeNumber, wholeNumberFrom, words } from './forms.ts';
import { findMemoryMb } from './server.ts';

const privateHosts = words.transform((entries, problems) =>
  entries.flatMap((entry) => {
    const [, host = '', port = ''] = /^([A-Za-z0-9.-]{1,253}):(\d{1,5})$/.exec(entry) ?? [];
    if (host !== '' && Number(port) > 0 && Number(port) < 65_536)
      return [{ host: host.toLowerCase(), port: Number(port) }];
    problems.addIssue('must be names with a port, such as `payments.internal:8443`, comma-separated');
    return [];
  }),
);

const ports = words.transform((entries, problems) => {
  const numbers = entries.map(Number);
  if (numbers.every((port) => Number.isInteger(port) && port > 0 && port < 65_536)) return numbers;
  problems.addIssue('must be ports, such as `443,8443`, comma-separated');
  return z.NEVER;
});

/** The share of the memory of the machine, or of the container if it has less. */
export const SANDBOX_MEMORY_SHARE = 0.25;

export const defaultMemoryTotalMb = (memoryMb: number): number => {
  const share = Math.floor(findMemoryMb() * SANDBOX_MEMORY_SHARE);
  return Math.max(share, memoryTotalMbLeast(memoryMb));
};

/** Variables of the sandbox and of outgoing requests. */
export const codeVariables = {
  SANDBOX_JAIL: z
    .enum(['auto', 'bwrap', 'landlock', 'none'])
    .default('auto')
    .describe(
      "What walls in tenants' code: `bwrap` (bubblewrap, and in it Landlock and seccomp) or `landlock` (Landlock and seccomp); `auto` takes the first that works here. A start without the wall that is asked for fails.",
    ),
  SANDBOX_ALLOW_WEAK: z
    .enum(['0', '1'])
    .default('0')
    .describe("`1` runs tenants' code in production without a wall: code that escapes V8 can then read the root key."),
  SANDBOX_ISOLATION: z
    .enum(['context', 'isolate'])
    .default('context')
    .describe(
      'What each run of code has of its own: a context, or a whole V8 isolate, which costs about five times the CPU time.',
    ),
  SANDBOX_MEMORY_TOTAL_MB: wholeNumberFrom(1, 1024 * 1024)
    .optional()
    .describe(
      'Memory of all processes for the code of tenants together, of all workers, in MB: room for two of them at least for each worker. One tenant has half of it at most. Not set: a quarter of the memory of the machine or container.',
    ),
  SANDBOX_WALL_MS: wholeNumber(RUN_MS.least, RUN_MS.most, RUN_MS.usual).describe(
    `Longest run of code, in ms. At most ${RUN_MS.most}.`,
  ),
  SANDBOX_CPU_MS: wholeNumber(50, 60_000, 5000).describe('Most CPU time of a run, in ms.'),
  SANDBOX_MEMORY_MB: wholeNumber(16, 1024, 128).describe("Memory of code's isolate, in MB."),
  PROXY_ALLOWED_HOSTS: hosts
    .optional()
    .describe(
      "Hosts that the proxy and code's `fetch` may reach, such as `api.example.com` or `*.example.com`, comma-separated. Not set: any public one.",
    ),
  PROXY_PORTS: ports.optional().describe('Ports they may reach, comma-separated. Not set: any that browsers may.'),
  EGRESS_PRIVATE_HOSTS: privateHosts
    .optional()
    .describe(
      'Hosts with their ports that may have private addresses, such as `payments.internal:8443`, comma-separated.',
    ),
};
