// npm run bench [-- NAME ...]: runs benches by name, or all of them, and prints one line of JSON each.
import { consolePages, signIn } from './console.ts';
import { against } from './against.ts';
import { cpu } from './cpu.ts';
import { echo } from './echo.ts';
import { fairness } from './fairness.ts';
import { fields } from './fields.ts';
import { files } from './files.ts';
import { lists } from './lists.ts';
import { logs } from './logs.ts';
import { sandboxNeighbour } from './neighbour.ts';
import { memory, start } from './process.ts';
import { proxyCard, proxyLatency, proxyMemory, proxyPass } from './proxy.ts';
import { reactFetch, reactPaced, reactThroughput } from './react.ts';
import { detokenizeHundred, readOne } from './read.ts';
import { siege } from './siege.ts';
import { sandboxCpu, sandboxMemory, sandboxRecovery, sandboxStart } from './sandbox.ts';
import { tenants } from './tenants.ts';
import { tokenizeBatch, tokenizeOne } from './tokenize.ts';
import { webhooks } from './webhooks.ts';
import { workers } from './workers.ts';

const benches: Record<string, () => Promise<Record<string, unknown>>> = {
  'tokenize-batch': tokenizeBatch,
  'tokenize-one': tokenizeOne,
  'read-one': readOne,
  'detokenize-100': detokenizeHundred,
  'sandbox-cpu': sandboxCpu,
  'sandbox-memory': sandboxMemory,
  'sandbox-recovery': sandboxRecovery,
  'sandbox-start': sandboxStart,
  'sandbox-neighbour': sandboxNeighbour,
  'react-paced': reactPaced,
  'react-throughput': reactThroughput,
  'react-fetch': reactFetch,
  tenants,
  'proxy-pass': proxyPass,
  'proxy-card': proxyCard,
  'proxy-latency': proxyLatency,
  'proxy-memory': proxyMemory,
  'console-pages': consolePages,
  'sign-in': signIn,
  against,
  cpu,
  echo,
  fairness,
  fields,
  files,
  lists,
  logs,
  siege,
  start,
  memory,
  webhooks,
  workers,
};

const names = process.argv.slice(2);
const unknown = names.filter((name) => !Object.hasOwn(benches, name));
if (unknown.length > 0) {
  console.error(`There is no bench ${unknown.join(', ')}. Known: ${Object.keys(benches).join(', ')}`);
  process.exit(1);
}
for (const [name, bench] of Object.entries(benches))
  if (names.length === 0 || names.includes(name)) console.log(JSON.stringify({ bench: name, ...(await bench()) }));
