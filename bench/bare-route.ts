// The limit for tokenize-one and read-one: Fastify alone, parsing the same body and serializing the same answer.
import { fastify } from 'fastify';

const [port, answer] = process.argv.slice(2);
const value = JSON.parse(answer ?? 'null') as unknown;
const app = fastify();
app.get('/', async () => 'ready');
app.post('/', async () => value);
app.get('/tokens/:id', async () => value);
await app.listen({ host: '127.0.0.1', port: Number(port) });
process.on('SIGTERM', () => void app.close().then(() => process.exit(0)));
