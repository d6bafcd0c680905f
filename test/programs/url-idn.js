// Takes addresses apart and puts them together, with foreign hosts.
// request: {"args":{"urls":["https://user:pä@Bücher.example:8443/a b/../c?q=1&q=ü#top","http://EXAMPLE.com:80","https://例え.テスト/パス","https://[::1]:443/","mailto:a@b.c","https://1.2.3/x","not a url","https://exa mple.com","//x.y"],"base":"https://api.example.com/v1/cards?x=1"}}
module.exports = ({ args: { urls, base } }) => {
  const show = (url) => ({
    href: url.href,
    origin: url.origin,
    protocol: url.protocol,
    username: url.username,
    password: url.password,
    host: url.host,
    hostname: url.hostname,
    port: url.port,
    pathname: url.pathname,
    search: url.search,
    hash: url.hash,
  });
  const attempt = (...given) => {
    try {
      return show(new URL(...given));
    } catch (error) {
      return [error.name, error.code, error.message];
    }
  };
  const url = new URL(base);
  url.pathname = '/v2/ümläut path';
  url.searchParams.append('y', 'a b&c');
  url.port = '8080';
  url.hash = 'frag ment';
  url.protocol = 'http';
  url.host = 'straße.de:99';
  url.port = 'bogus';
  return {
    raw: {
      parsed: urls.map((each) => attempt(each)),
      relative: ['../tokens', '/root', '?only=query', '#hash', '//other.host/x', 'https:rel'].map((each) =>
        attempt(each, base),
      ),
      changed: url.toString(),
      json: { url },
      same: new URL('HTTPS://A.b/%7Ex/./y').href,
    },
  };
};
