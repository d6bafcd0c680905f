// The limit for react-paced: Fastify alone, calling the same function in its own process, without a wall, a key or a log.
import { fastify } from 'fastify';

const [port, code] = process.argv.slice(2);
const holder: { exports: unknown } = { exports: {} };
new Function('module', code as string)(holder);
const run = holder.exports as (req: unknown) => Promise<unknown>;
const app = fastify();
app.get('/', async () => 'ready');
app.post('/', async (request) => run({ args: (request.body as { args: unknown }).args, configuration: {}, svc: null }));
await app.listen({ host: '127.0.0.1', port: Number(port) });
process.on('SIGTERM', () => void app.close().then(() => process.exit(0)));
