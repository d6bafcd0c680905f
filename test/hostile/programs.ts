// Programs that mean harm, by the numbers of the groups they belong to, each with all the ends it may come to. `ok` and what
// follows is the JSON of a result; every other word is the code of a fault, with the name of what was thrown after a colon.

export type HostileProgram = { group: number; name: string; code: string; ends: string[] };

const body = (code: string): string => `module.exports = async function (req) { ${code} };`;
const CPU = ['TIMEOUT_CPU'];
const WALL = ['TIMEOUT_WALL'];
/** Memory programs end in one of these, by the luck of who notices first; RangeError is the language's own refusal. */
const MEMORY = ['OUT_OF_MEMORY', 'TIMEOUT_CPU', 'TIMEOUT_WALL', 'THROWN:RangeError', 'EXECUTOR_DIED'];
const ONE = 'ok{"raw":1}';

const program = (group: number, name: string, code: string, ends: string[]): HostileProgram => ({
  group,
  name,
  code,
  ends,
});
const inBody = (group: number, name: string, code: string, ends: string[]): HostileProgram =>
  program(group, name, body(code), ends);

export const hostilePrograms: HostileProgram[] = [
  inBody(1, 'a loop in the body', 'while (true) {}', CPU),
  program(1, 'a loop at the top level', 'while (true) {}', CPU),
  inBody(1, 'a loop in a promise callback', 'await Promise.resolve().then(() => { for (;;) {} });', CPU),
  inBody(1, 'a loop after a timer', 'await new Promise((r) => setTimeout(r, 5)); for (;;) {}', CPU),
  inBody(1, 'a loop in toJSON', 'return { raw: { toJSON() { for (;;) {} } } };', CPU),
  inBody(1, 'a loop in a thenable', 'return { then() { for (;;) {} } };', CPU),
  inBody(
    1,
    "a loop in an error's getter",
    'throw Object.defineProperty(new Error(), "message", { get() { for (;;) {} } });',
    CPU,
  ),
  inBody(1, "a loop in a result's getter", 'return { get raw() { for (;;) {} } };', CPU),
  inBody(
    1,
    'a loop in an async generator',
    'async function* g() { for (;;) yield 1; } for await (const x of g());',
    CPU,
  ),
  inBody(1, 'a loop that catches everything', 'for (;;) { try { for (;;) {} } catch {} finally { continue; } }', CPU),
  inBody(2, 'a flood of microtasks', 'const f = () => Promise.resolve().then(f); return f();', CPU),
  inBody(2, 'awaits without end', 'for (;;) await null;', CPU),
  inBody(2, 'nextTicks without end', 'const f = () => process.nextTick(f); f(); await new Promise(() => {});', [
    ...CPU,
    ...WALL,
  ]),
  inBody(3, 'a promise that never settles', 'await new Promise(() => {});', WALL),
  inBody(3, 'a storm of timers', 'for (;;) await new Promise((r) => setTimeout(r, 0));', [...WALL, ...CPU]),
  inBody(3, 'an interval left behind', 'setInterval(() => {}, 1); return { raw: 1 };', [ONE]),
  inBody(3, 'more timers than may wait', 'for (let i = 0; i < 1e6; i++) setTimeout(() => {}, 1e6);', [
    'THROWN:RangeError',
    'THROWN:Error',
  ]),
  inBody(
    4,
    'many short slices',
    'for (;;) { const end = Date.now() + 40; while (Date.now() < end); await new Promise((r) => setTimeout(r, 1)); }',
    [...CPU, ...WALL],
  ),
  inBody(5, 'a pattern that explodes', 'return { raw: /^(a+)+$/.test("a".repeat(40) + "!") };', CPU),
  inBody(5, 'recursion', 'const f = () => f() + 1; f();', ['THROWN:RangeError']),
  inBody(5, 'recursion that catches', 'const f = () => { try { f(); } catch { f(); } }; f();', [
    ...CPU,
    'THROWN:RangeError',
  ]),
  inBody(
    5,
    'half a million nested arrays, parsed',
    'JSON.parse("[".repeat(5e5) + "]".repeat(5e5)); return { raw: 1 };',
    [ONE, 'THROWN:RangeError', ...CPU],
  ),
  inBody(5, 'a result 200,000 deep', 'let a = []; for (let i = 0; i < 2e5; i++) a = [a]; return { raw: a };', [
    'THROWN',
    'THROWN:RangeError',
    ...CPU,
  ]),
  inBody(6, 'arrays', 'const a = []; for (;;) a.push(new Array(1e5).fill(1.5));', MEMORY),
  inBody(6, 'objects', 'const a = []; for (;;) a.push({ a: {}, b: {} });', MEMORY),
  inBody(6, 'a map that grows', 'const m = new Map(); for (let i = 0; ; i++) m.set(i, { i });', MEMORY),
  inBody(6, 'a string that doubles', 'let s = "x"; for (;;) s += s;', MEMORY),
  inBody(
    6,
    'strings that are flattened',
    'const a = []; for (let i = 0; ; i++) a.push(("y" + i).repeat(1e6).split("").join("-"));',
    MEMORY,
  ),
  inBody(
    6,
    'a replacement that multiplies',
    'return { raw: "x".repeat(5e7).replace(/x/g, "$&$&$&$&$&$&$&$&").length };',
    MEMORY,
  ),
  inBody(6, 'the square of a BigInt', 'let x = 2n; for (;;) x = x * x;', MEMORY),
  inBody(6, 'a power of a BigInt', 'return { raw: String((2n ** 64n) ** (2n ** 24n)).length };', MEMORY),
  inBody(6, 'JSON of 512 MB', 'return { raw: JSON.stringify("x".repeat(2 ** 29 - 24)).length };', MEMORY),
  inBody(
    6,
    'a sort of three million',
    'return { raw: Array.from({ length: 3e6 }, (_, i) => 3e6 - i).sort((a, b) => a - b)[0] };',
    [...MEMORY, ONE],
  ),
  inBody(6, 'promises', 'const a = []; for (;;) a.push(new Promise(() => {}));', MEMORY),
  inBody(6, 'typed arrays', 'const a = []; for (;;) a.push(new Uint8Array(1e8).fill(1));', MEMORY),
  inBody(
    6,
    'a loop that catches the end of memory',
    'const a = []; for (;;) { try { a.push(new Array(1e6).fill(0)); } catch {} }',
    MEMORY,
  ),
  inBody(6, 'one array of a hundred million', 'return { raw: new Array(1e8).fill(0).length };', MEMORY),
  inBody(6, 'one array of sixty million', 'return { raw: new Array(6e7).fill().length };', MEMORY),
  inBody(6, 'a clone of clones', 'let a = { x: "y".repeat(1e5) }; for (;;) a = structuredClone({ a, b: a });', [
    ...MEMORY,
    'THROWN:DataCloneError',
  ]),
  inBody(6, 'a string spread', 'return { raw: [...".".repeat(1e9)].length };', MEMORY),
  inBody(6, 'a long stack trace', 'Error.stackTraceLimit = 1e9; const f = () => { f(); }; f();', [
    ...MEMORY,
    'THROWN:RangeError',
  ]),
  inBody(6, 'buffers', 'const a = []; for (;;) a.push(Buffer.alloc(1e8, 1));', [...MEMORY, 'THROWN:Error']),
  inBody(7, 'a BigInt that does not stop', 'let x = 3n ** 1000000n; for (;;) x = x * x;', MEMORY),
  inBody(8, 'a result of 20 MB', 'return { raw: "x".repeat(2e7) };', ['OUTPUT_TOO_LARGE', ...CPU]),
  inBody(
    8,
    'a hundred MB of console',
    'for (let i = 0; i < 100; i++) console.log("x".repeat(1e6)); return { raw: 1 };',
    [ONE, ...CPU],
  ),
  inBody(
    8,
    'a hundred thousand fetches',
    'await Promise.all(Array.from({ length: 1e5 }, () => fetch("https://example.com")));',
    ['THROWN:TypeError', 'THROWN:Error', ...CPU, ...WALL],
  ),
  inBody(
    9,
    'key derivation in a loop',
    'const c = require("crypto"); for (;;) c.pbkdf2Sync("a", "b", 1e6, 64, "sha512");',
    [...CPU, ...WALL],
  ),
  inBody(9, 'two gigabytes of randomness', 'return { raw: require("crypto").randomBytes(2 ** 31).length };', [
    'THROWN:RangeError',
    'THROWN:Error',
  ]),
  inBody(9, 'hashes in a loop', 'const c = require("crypto"); for (;;) c.createHash("sha256").update("a").digest();', [
    ...CPU,
    ...WALL,
  ]),
  inBody(
    9,
    'an update that never ends',
    'const h = require("crypto").createHash("sha256"); const b = Buffer.alloc(1e6); for (;;) h.update(b);',
    [...MEMORY, 'THROWN:Error'],
  ),
  inBody(10, 'a thrown string', 'throw "words";', ['THROWN']),
  inBody(10, 'a thrown null', 'throw null;', ['THROWN']),
  inBody(10, 'a thrown undefined', 'throw undefined;', ['THROWN']),
  inBody(10, 'a thrown symbol', 'throw Symbol("s");', ['THROWN']),
  inBody(
    10,
    'a thrown proxy',
    'throw new Proxy({}, { get() { throw 1; }, getPrototypeOf() { throw 2; }, has() { throw 3; } });',
    ['THROWN'],
  ),
  inBody(10, 'a message of 5 MB', 'throw new Error("x".repeat(5e6));', ['THROWN:Error']),
  inBody(
    10,
    'getters that throw',
    'throw { get message() { throw 1; }, get name() { throw 2; }, get stack() { throw 3; }, toString() { throw 4; } };',
    ['THROWN'],
  ),
  inBody(10, 'a frozen error', 'throw Object.freeze(new TypeError("cold"));', ['THROWN:TypeError']),
  inBody(
    10,
    'a rejection after the result',
    'setTimeout(() => Promise.reject(new Error("late")), 1); return { raw: 1 };',
    [ONE],
  ),
  inBody(10, 'a rejection nobody handles', 'Promise.reject(new Error("lost")); return { raw: 1 };', [ONE]),
  inBody(11, 'a BigInt', 'return { raw: 1n };', ['THROWN', 'THROWN:TypeError']),
  inBody(11, 'a cycle', 'const a = {}; a.a = a; return a;', ['THROWN', 'THROWN:TypeError']),
  inBody(11, 'a function', 'return () => {};', ['oknull']),
  inBody(11, 'nothing', '', ['oknull']),
  inBody(11, 'a proxy', 'return new Proxy({ raw: 1 }, {});', [ONE]),
  inBody(11, 'a date and a map', 'return { raw: [new Date(0), new Map([[1, 2]])] };', [
    'ok{"raw":["1970-01-01T00:00:00.000Z",{}]}',
  ]),
  inBody(
    11,
    'a resized array',
    'const b = new ArrayBuffer(8, { maxByteLength: 16 }); const a = new Uint8Array(b, 4, 4); b.resize(2); return { raw: a };',
    ['ok{"raw":{}}', 'THROWN:TypeError'],
  ),
  inBody(
    12,
    'replaced JSON',
    'JSON.stringify = () => "{\\"raw\\":2}"; JSON.parse = () => ({ raw: 3 }); return { raw: 1 };',
    [ONE],
  ),
  inBody(
    12,
    'polluted prototypes',
    'for (const C of [Object, Array, Promise, Map, Uint8Array, String, Function]) { C.prototype.polluted = 1; C.prototype.then = undefined; } return { raw: 1 };',
    [ONE, 'THROWN:TypeError', ...WALL],
  ),
  inBody(
    12,
    'a setter on every object',
    'Object.defineProperty(Object.prototype, "ok", { set() { for (;;) {} } }); Object.defineProperty(Object.prototype, "code", { set() { for (;;) {} } }); return { raw: 1 };',
    [ONE, ...CPU],
  ),
  inBody(
    12,
    'setters for what the prelude loads late',
    'let stolen; for (const name of ["brand", "brandOf", "describeThrown", "describeNotJson", "requireModule", "resolve"]) Object.defineProperty(Object.prototype, name, { set(value) { stolen = value; } }); require("util"); require("@svc/reactor-formulas-sdk"); try { require("absent"); } catch {} throw stolen ? new TypeError("stolen") : new RangeError("no");',
    ['THROWN:RangeError'],
  ),
  inBody(
    12,
    'a module that is stopped midway, twice',
    'let stopped = 0; Object.defineProperty(Object.prototype, "isDeepStrictEqual", { set() { stopped += 1; throw new RangeError("stop"); }, configurable: true }); for (let i = 0; i < 2; i += 1) try { require("assert"); } catch {} delete Object.prototype.isDeepStrictEqual; require("assert").deepStrictEqual([1], [1]); return { raw: stopped === 2 ? 1 : stopped };',
    [ONE],
  ),
  inBody(
    12,
    'a prototype key in the result',
    'return JSON.parse("{\\"raw\\":{\\"__proto__\\":{\\"polluted\\":1}}}");',
    ['THROWN'],
  ),
  inBody(12, 'a constructor key in the result', 'return { raw: { constructor: { prototype: { polluted: 1 } } } };', [
    'THROWN',
  ]),
  inBody(
    12,
    'a species',
    'Object.defineProperty(Promise, Symbol.species, { get() { for (;;) {} } }); await 1; return { raw: 1 };',
    [ONE, ...CPU],
  ),
  inBody(
    14,
    'constructors up to the host',
    'return { raw: typeof this?.constructor?.constructor("return process.dlopen")() };',
    ['ok{"raw":"undefined"}', 'THROWN:TypeError'],
  ),
  inBody(
    14,
    'Function and process',
    'return { raw: [typeof Function("return process.dlopen")(), typeof Function("return process.mainModule")(), typeof Function("return this.ivm")()] };',
    ['ok{"raw":["undefined","undefined","undefined"]}'],
  ),
  inBody(14, 'bindings of Node', 'process.binding("fs");', ['THROWN:Error', 'THROWN:TypeError']),
  inBody(14, 'import()', 'await import("fs");', ['THROWN', 'THROWN:Error', 'THROWN:TypeError']),
  inBody(
    14,
    'stack frames',
    `Error.prepareStackTrace = (_, frames) => frames.flatMap((f) => [f.getThis(), f.getFunction()]);
     const found = [new Error().stack].flat();
     const isOfThisRealm = (x) => { try { return typeof x.constructor.constructor('return process.dlopen')() === 'undefined'; } catch { return true; } };
     return { raw: found.every((x) => x == null || typeof x === 'string' || isOfThisRealm(x)) };`,
    ['ok{"raw":true}'],
  ),
  inBody(
    14,
    'the constructor of an async function',
    'const A = (async () => {}).constructor; return { raw: await new A("return typeof process.dlopen")() };',
    ['ok{"raw":"undefined"}'],
  ),
  inBody(14, 'a hash named by a prototype key', 'require("crypto").createHash("__proto__").update("a").digest();', [
    'THROWN',
    'THROWN:Error',
    'THROWN:TypeError',
  ]),
  inBody(14, 'a forbidden module', 'require("fs");', ['THROWN:Error']),
  inBody(14, 'a module by a prototype key', 'require("__proto__");', ['THROWN:Error']),
  inBody(
    14,
    'host words in a stack',
    'return { raw: /node_modules|prelude\\/|\\/src\\/|\\/dist\\/|isolated/.test(new Error().stack) };',
    ['ok{"raw":false}'],
  ),
  inBody(
    15,
    'all that can be reached from the global object',
    `const seen = new Set(); const odd = [];
     const walk = (value, depth) => {
       if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value) || depth > 6) return;
       seen.add(value);
       const name = value.constructor && value.constructor.name;
       if (/^(Isolate|Context|Reference|ExternalCopy|Callback|Script|NativeModule)$/.test(name)) odd.push(name);
       for (const key of Reflect.ownKeys(value)) { let inner; try { inner = value[key]; } catch { continue; } walk(inner, depth + 1); }
       walk(Object.getPrototypeOf(value), depth + 1);
     };
     walk(globalThis, 0);
     return { raw: [odd, ['WebAssembly', 'SharedArrayBuffer', 'Atomics', 'boot', 'ivm', 'gc'].filter((n) => n in globalThis || new Function('return typeof ' + n)() !== 'undefined')] };`,
    ['ok{"raw":[[],[]]}', ...CPU],
  ),
  program(20, 'a wrapper break', '}); (function () { for (;;) {} })(); (function () {', ['SYNTAX']),
  program(20, 'nested parentheses', '('.repeat(1e5) + ')'.repeat(1e5), ['SYNTAX']),
  // To compile 250,000 takes more than the 300 ms of SMALL_LIMITS on a busy machine.
  program(20, 'a large literal', `module.exports = () => ({ raw: [${'1,'.repeat(100_000)}].length });`, [
    'ok{"raw":100000}',
  ]),
  program(20, '5 MB of source', `/*${'x'.repeat(5_000_000)}*/ module.exports = () => ({ raw: 1 });`, [ONE]),
  program(20, 'no function', 'module.exports = { a: 1 };', ['NO_FUNCTION']),
  program(20, 'a throw at load', 'throw new Error("at load");', ['THROWN:Error']),
  program(20, 'BOM and hashbang', '\uFEFF#!/usr/bin/env node\nmodule.exports = () => ({ raw: 1 });', [ONE]),
  program(20, 'strict mode', '"use strict"; module.exports = function () { return { raw: this === undefined }; };', [
    'ok{"raw":true}',
  ]),
  program(20, 'sloppy mode', 'var o = { a: 010 }; module.exports = function () { with (o) { return { raw: a }; } };', [
    'ok{"raw":8}',
  ]),
];
