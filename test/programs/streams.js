// Reads, changes and gathers a stream.
// request: {"args":{"lines":["one","two","three"]}}
const { Readable, Transform, Writable, PassThrough, pipeline } = require('stream');
const { pipeline: piped, finished } = require('stream/promises');

module.exports = async ({ args: { lines } }) => {
  const upper = new Transform({
    transform(chunk, encoding, callback) {
      callback(null, chunk.toString().toUpperCase());
    },
    flush(callback) {
      this.push('END');
      callback();
    },
  });
  const chunks = [];
  const sink = new Writable({
    write(chunk, encoding, callback) {
      chunks.push([chunk.toString(), encoding]);
      callback();
    },
  });
  await piped(Readable.from(lines), upper, sink);
  const through = new PassThrough();
  through.write('abc');
  through.end('def');
  let whole = '';
  for await (const chunk of through) whole += chunk;
  const order = [];
  const readable = new Readable({ read() {} });
  readable
    .on('data', (data) => order.push(`data ${data}`))
    .on('end', () => order.push('end'))
    .on('close', () => order.push('close'));
  readable.push('x');
  readable.push(null);
  await finished(readable);
  const failed = await new Promise((resolve) => {
    const broken = new Transform({ transform: (chunk, encoding, callback) => callback(new Error('broken pipe')) });
    pipeline(Readable.from(['a']), broken, new PassThrough(), (error) => resolve(error.message));
  });
  const objects = [];
  for await (const each of Readable.from([{ n: 1 }, { n: 2 }]).map(({ n }) => n * 2)) objects.push(each);
  return { raw: { chunks, whole, order, failed, objects } };
};
