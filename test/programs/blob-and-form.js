// Puts a multipart form together and reads blobs.
// request: {"args":{"name":"Zoë"}}
module.exports = async ({ args: { name } }) => {
  const form = new FormData();
  form.append('name', name);
  form.append('name', 'second');
  form.append('file', new Blob(['{"a":1}'], { type: 'application/json' }), 'data.json');
  form.set('n', 5);
  const entries = [...form].map(([key, value]) => [
    key,
    typeof value === 'string' ? value : [value.name, value.type, value.size],
  ]);
  const body = await new Response(form).text();
  const boundary = body.slice(2, body.indexOf('\r\n'));
  const file = new File(['abc'], 'a.txt', { type: 'text/plain', lastModified: 5 });
  return {
    raw: {
      entries,
      all: form.getAll('name'),
      has: [form.has('file'), form.has('x'), form.get('x')],
      body: body.split(boundary).join('BOUNDARY'),
      file: [file.name, file.size, file.type, file.lastModified, await file.text()],
      bytes: [...new Uint8Array(await new Blob([new Uint8Array([1, 2]), 'é']).arrayBuffer())],
      base64: [
        btoa('hello'),
        atob('aGVsbG8='),
        (() => {
          try {
            btoa('ü€');
          } catch (error) {
            return [error.name, error.code];
          }
        })(),
      ],
    },
  };
};
