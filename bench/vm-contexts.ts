// The limit for sandbox-cpu: node:vm with a new context for each call, no wall and no process around it, in a process of its own.
// Prints the CPU time of a call in microseconds. For measuring only: node:vm holds nobody.
import { createContext, Script } from 'node:vm';

const [code, input, callsText] = process.argv.slice(2);
const calls = Number(callsText);
const author = new Script(`(function (exports, require, module) { ${code} \n})`);
const driver = new Script(
  '(author, input) => { const module = { exports: {} }; author(module.exports, undefined, module); return Promise.resolve(module.exports(JSON.parse(input))).then((result) => JSON.stringify(result)); }',
);

const call = async (): Promise<void> => {
  const context = createContext({});
  const run = driver.runInContext(context) as (author: unknown, input: unknown) => Promise<string>;
  await run(author.runInContext(context), input);
};

for (let index = 0; index < calls / 4; index += 1) await call();
const before = process.cpuUsage();
for (let index = 0; index < calls; index += 1) await call();
const { user, system } = process.cpuUsage(before);
console.log((user + system) / calls);
