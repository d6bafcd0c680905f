// The demo's pages: the shop's checkout, and the panel of the processor that it frames.

export const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');

const PANEL_STYLE = `
  pre { margin: 0; padding: 12px; font: 12px/1.5 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere }
  body { margin: 0; color: #1f2430 }`;

/** @param content HTML. */
export const panelPage = (content: string): string =>
  `<!doctype html><html lang="en"><meta charset="utf-8"><title>Processor</title><style>${PANEL_STYLE}</style><pre>${content}</pre></html>`;

export type CheckoutOptions = {
  nonce: string;
  vaultUrl: string;
  /** Of the library that the vault serves. */
  version: string;
  integrity: string;
  processorPageUrl: string;
  /** The last four digits of the card on file, if there is one. */
  ending: string | undefined;
};

const STYLE = `
  body { margin: 0; font: 16px/1.5 system-ui, sans-serif; color: #1f2430; background: #f4f5f8 }
  header { padding: 16px 32px; background: #1f2430; color: #fff; font-weight: 600 }
  main { display: grid; grid-template-columns: 340px 1fr; gap: 24px; padding: 24px 32px; max-width: 1280px }
  [hidden] { display: none }
  form, section { background: #fff; border: 1px solid #d9dce5; border-radius: 8px }
  form { padding: 20px; align-self: start }
  h1 { font-size: 20px; margin: 0 0 12px }
  h2 { font-size: 14px; margin: 0; padding: 10px 12px; border-bottom: 1px solid #d9dce5 }
  .field { min-height: 70px }
  .row { display: grid; grid-template-columns: 1fr 1fr; gap: 12px }
  button { width: 100%; margin-top: 12px; padding: 12px; border: 0; border-radius: 6px; background: #2851d8; color: #fff; font: inherit }
  button:disabled { background: #a9b4d6 }
  .panels { display: grid; gap: 16px }
  pre { margin: 0; padding: 12px; font: 12px/1.5 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; min-height: 60px }
  iframe.panel { border: 0; width: 100%; height: 112px; display: block }
  small { color: #5b6275; font-weight: 400 }
  @media (max-width: 900px) { main { grid-template-columns: 1fr; padding: 16px } }`;

/** The page of the shop. Its script sees events and a token, and no part of the number but the mask. */
export const checkoutPage = ({
  nonce,
  vaultUrl,
  version,
  integrity,
  processorPageUrl,
  ending,
}: CheckoutOptions): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Shop</title>
<style nonce="${nonce}">${STYLE}</style>
<script nonce="${nonce}" src="${vaultUrl}/fields/${version}/fields.js" crossorigin="anonymous" integrity="${integrity}"></script>
</head>
<body>
<header>Example shop</header>
<main>
<form id="form">
  <h1>Pay EUR 19.99</h1>
  <div id="number" class="field"></div>
  <div class="row"><div id="expiry" class="field"></div><div id="cvc" class="field"></div></div>
  <button disabled>Pay</button>
  <p id="result" role="status"></p>
  <small>Use a test card, any date ahead, any code: 4242 4242 4242 4242 succeeds, 4000 0000 0000 0002 is declined,
    4000 0000 0000 0119 is not answered (25 seconds), 4000 0000 0000 0341 resets the connection.</small>
</form>
<form id="on-file"${ending === undefined ? ' hidden' : ''}>
  <h1>Pay EUR 19.99 with the card on file</h1>
  <p>The card that ends with ${ending ?? ''}. Type its security code again: it goes to the vault only.</p>
  <div id="code" class="field"></div>
  <button disabled>Pay again</button>
  <p role="status"></p>
</form>
<div class="panels">
  <section><h2>The page in the browser saw <small>events of the fields, and a token</small></h2><pre id="browser"></pre></section>
  <section><h2>The merchant's server saw <small>a token</small></h2><pre id="merchant"></pre></section>
  <section><h2>The processor saw <small>the card. This frame is the processor's page</small></h2>
    <iframe class="panel" id="processor" title="What the processor saw" src="${processorPageUrl}"></iframe></section>
</div>
</main>
<script type="module" nonce="${nonce}">
const find = (selector) => document.querySelector(selector);
const origin = ${JSON.stringify(vaultUrl)};
const ask = async (path, body) => {
  const response = await fetch(path, { method: 'POST', body: JSON.stringify(body ?? {}) });
  if (!response.ok) throw new Error('The shop did not answer. Try again.');
  return response.json();
};
const saw = [];
const see = (line) => {
  if (line !== saw.at(-1)) saw.push(line);
  find('#browser').textContent = saw.slice(-6).join('\\n');
};

const show = (merchant) => {
  find('#merchant').textContent = merchant;
  find('#processor').src = find('#processor').src;
};

if (!find('#on-file').hidden) {
  const session = await ask('/code-session');
  const code = StrongroomFields.createFields({ origin, session }).securityCode();
  const [button, status] = [find('#on-file button'), find('#on-file [role=status]')];
  code.on('change', ({ complete, valid }) => {
    button.disabled = !complete;
    see('change ' + JSON.stringify({ complete, valid }));
  });
  code.on('error', ({ code }) => see('error ' + code));
  code.mount({ cvc: '#code' });
  find('#on-file').addEventListener('submit', async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      see('saved ' + JSON.stringify(await code.save()));
      const paid = await ask('/pay-on-file', { session: session.id });
      status.textContent = 'Payment ' + paid.status;
      show(paid.merchant);
    } catch (error) {
      status.textContent = error.message;
      button.disabled = false;
    }
  });
}

const session = await ask('/session');
const card = StrongroomFields.createFields({ origin, session }).card();
card.on('change', ({ complete, valid, brand }) => {
  find('button').disabled = !complete;
  see('change ' + JSON.stringify({ complete, valid, brand }));
});
card.on('error', ({ code }) => see('error ' + code));
card.mount({ number: '#number', expiry: '#expiry', cvc: '#cvc' });

find('#form').addEventListener('submit', async (event) => {
  event.preventDefault();
  find('button').disabled = true;
  try {
    const token = await card.tokenize();
    see('token ' + JSON.stringify(token));
    const { status, merchant } = await ask('/pay', { session: session.id, token: token.id });
    find('#result').textContent = 'Payment ' + status;
    show(merchant);
    find('button').disabled = status === 'succeeded';
  } catch (error) {
    find('#result').textContent = error.message;
    find('button').disabled = false;
  }
});
</script>
</body>
</html>`;
