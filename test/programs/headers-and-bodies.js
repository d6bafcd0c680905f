// Headers, requests and responses, without sending anything.
// request: {"args":{"body":{"a":"ü"}}}
module.exports = async ({ args: { body } }) => {
  const headers = new Headers({ 'Content-Type': 'application/json', 'X-A': '1' });
  headers.append('x-a', '2');
  headers.append('Set-Cookie', 'a=1');
  headers.append('Set-Cookie', 'b=2');
  const request = new Request('https://example.com/x?y=1', { method: 'post', headers, body: JSON.stringify(body) });
  const response = new Response(JSON.stringify(body), { status: 201, statusText: 'Made', headers: { 'x-b': 'c' } });
  const copy = response.clone();
  const faults = [];
  for (const attempt of [
    () => new Headers({ 'bad name': '1' }),
    () => new Request('nope'),
    () => new Request('https://a.b', { body: 'x' }),
    () => new Response('', { status: 99 }),
  ]) {
    try {
      attempt();
    } catch (error) {
      faults.push(error.name);
    }
  }
  const json = await response.json();
  const again = await response.text().catch((error) => error.name);
  return {
    raw: {
      headers: [...headers],
      cookies: headers.getSetCookie(),
      get: [headers.get('X-a'), headers.get('none'), headers.has('content-type')],
      request: [
        request.method,
        request.url,
        request.headers.get('content-type'),
        await request.text(),
        request.bodyUsed,
      ],
      response: [response.status, response.ok, response.statusText, response.headers.get('x-b'), json, again],
      copy: (await copy.arrayBuffer()).byteLength,
      faults,
      made: [
        Response.json({ a: 1 }).headers.get('content-type'),
        await Response.json({ a: 1 }).text(),
        Response.redirect('https://a.b/', 307).status,
      ],
      form: await new Response(new URLSearchParams({ a: 'b c' })).text(),
      blob: [
        await new Blob(['ab', Buffer.from('c')], { type: 'Text/Plain' }).slice(1).text(),
        new Blob(['x'], { type: 'Text/Plain' }).type,
      ],
    },
  };
};
