// The limit for react-throughput: a fresh Node for each call, which is what keeping tenants apart costs without a sandbox.
// Prints calls a second, as many at a time as asked for.
import { spawn } from 'node:child_process';

const [code, input, atOnceText, secondsText] = process.argv.slice(2);
const program = `const module_ = { exports: {} }; new Function('module', process.argv[1])(module_); Promise.resolve(module_.exports(JSON.parse(process.argv[2]))).then((result) => process.stdout.write(JSON.stringify(result)));`;

const call = (): Promise<void> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ['-e', program, code as string, input as string], {
      env: {},
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    child.stdout.resume();
    child.once('exit', (status) => (status === 0 ? resolve() : reject(new Error('a child failed'))));
  });

const until = performance.now() + Number(secondsText) * 1000;
let calls = 0;
const began = performance.now();
const loop = async (): Promise<void> => {
  while (performance.now() < until) {
    await call();
    calls += 1;
  }
};
await Promise.all(Array.from({ length: Number(atOnceText) }, loop));
console.log(calls / ((performance.now() - began) / 1000));
