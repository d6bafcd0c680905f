// Node's older functions for addresses.
// request: {"args":{"urls":["https://user:pass@host.com:8080/p/a/t/h?query=string&x=1#hash","/relative?q=1","mailto:x@y.z","//host/path"]}}
const url = require('url');

module.exports = ({ args: { urls } }) => ({
  raw: {
    parsed: urls.map((each) => ({ ...url.parse(each) })),
    query: { ...url.parse(urls[0], true).query },
    slashes: url.parse('//host/path', false, true).host,
    formatted: [
      url.format({ protocol: 'https', host: 'a.b', pathname: '/x', query: { q: ['1', '2'] } }),
      url.format(new URL('https://u:p@測試/x#y'), { auth: false, fragment: false, unicode: true }),
      url.format({ hostname: 'h', port: 99, search: 'a=b', hash: 'z' }),
    ],
    resolved: [
      url.resolve('/one/two/three', 'four'),
      url.resolve('http://example.com/', '/one'),
      url.resolve('http://example.com/one', '../two'),
    ],
    ascii: [url.domainToASCII('español.com'), url.domainToUnicode('xn--fiq228c.com')],
    options: (({ hostname, path, port, auth, protocol }) => ({ hostname, path, port, auth, protocol }))(
      url.urlToHttpOptions(new URL('https://a:b@x.y:44/p?q')),
    ),
  },
});
