// Signs a request in the manner of AWS Signature Version 4.
// request: {"args":{"key":"AKIDEXAMPLE","secret":"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY","date":"20150830T123600Z","region":"us-east-1","service":"iam","method":"GET","path":"/","query":{"Version":"2010-05-08","Action":"ListUsers"},"headers":{"Host":"iam.amazonaws.com","Content-Type":"application/x-www-form-urlencoded; charset=utf-8"},"body":""}}
const { createHash, createHmac } = require('node:crypto');

const sha256 = (data) => createHash('sha256').update(data, 'utf8').digest('hex');
const hmac = (key, data) => createHmac('sha256', key).update(data, 'utf8').digest();
const encode = (text) =>
  encodeURIComponent(text).replace(/[!'()*]/g, (c) => '%' + c.charCodeAt(0).toString(16).toUpperCase());

module.exports = async (req) => {
  const { key, secret, date, region, service, method, path, query, headers, body } = req.args;
  const day = date.slice(0, 8);
  const all = { ...headers, 'X-Amz-Date': date };
  const names = Object.keys(all)
    .map((name) => name.toLowerCase())
    .sort();
  const lower = Object.fromEntries(Object.entries(all).map(([name, value]) => [name.toLowerCase(), value.trim()]));
  const canonical = [
    method,
    path,
    Object.keys(query)
      .sort()
      .map((name) => `${encode(name)}=${encode(query[name])}`)
      .join('&'),
    names.map((name) => `${name}:${lower[name]}\n`).join(''),
    names.join(';'),
    sha256(body),
  ].join('\n');
  const scope = [day, region, service, 'aws4_request'].join('/');
  const toSign = ['AWS4-HMAC-SHA256', date, scope, sha256(canonical)].join('\n');
  const signing = [day, region, service, 'aws4_request'].reduce(hmac, 'AWS4' + secret);
  const signature = createHmac('sha256', signing).update(toSign).digest('hex');
  return {
    raw: {
      canonical,
      signature,
      authorization: `AWS4-HMAC-SHA256 Credential=${key}/${scope}, SignedHeaders=${names.join(';')}, Signature=${signature}`,
    },
  };
};
