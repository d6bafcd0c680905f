// The API reference and the guides: search while typing, tabs of samples, and requests that a person tries with a pasted key. The key is a variable of this
// module. It goes to this origin only, in a header, and is gone when the page is left.

/** Longer responses are cut: the page is for reading. */
const RESPONSE_CHARACTERS_MAX = 200_000;

let key = '';

const all = (selector, within = document) => [...within.querySelectorAll(selector)];

const element = (name, attributes = {}, text = '') => {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  made.textContent = text;
  return made;
};

// Samples name this vault, by the address that the browser has reached it at.
for (const sample of all('[data-sample]')) {
  const { server } = document.querySelector('[data-server]').dataset;
  sample.textContent = sample.textContent.replaceAll(server, location.origin);
}

// Who opens the samples of one language in one place reads that language in the others.
for (const tab of all('details[data-language]'))
  tab.addEventListener('toggle', () => {
    if (!tab.open) return;
    for (const other of all('details[data-language]'))
      if (other.dataset.language === tab.dataset.language) other.open = true;
  });

/** Shows the operations that have all words of a query. */
const filter = (query) => {
  const words = query.toLowerCase().split(/\s+/);
  let count = 0;
  for (const chapter of all('[data-chapter]')) {
    const rows = all('[data-words]', chapter);
    for (const row of rows) row.hidden = !words.every((word) => row.dataset.words.includes(word));
    const shown = rows.filter((row) => !row.hidden).length;
    chapter.hidden = shown === 0;
    count += shown;
  }
  const line = document.querySelector('[data-count]');
  line.textContent = `${count} ${line.dataset.count}${count === 1 ? '' : 's'}`;
};
if (document.querySelector('[data-count]'))
  document.querySelector('[data-find]').addEventListener('input', ({ target }) => filter(target.value));

const card = document.querySelector('[data-key-card]');
const keyField = document.querySelector('[data-key]');
const keyState = document.querySelector('[data-key-state]');
const useKey = document.querySelector('[data-use-key]');

/** Takes the key out of the field, and the empty field as its end. */
const takeKey = () => {
  key = keyField.value.trim();
  keyField.value = '';
  keyState.textContent =
    key === '' ? 'No key is used.' : 'A key is used for the requests of this page, until you leave or reload it.';
  useKey.textContent = key === '' ? 'Use' : 'Replace or forget';
};
if (card) {
  card.hidden = false;
  useKey.addEventListener('click', takeKey);
  keyField.addEventListener('keydown', (event) => event.key === 'Enter' && takeKey());
}

/** A part of a path; the rest of a path keeps its slashes. @throws Error for a part that URLs take for a way up. */
const pathText = (name, value) => {
  const parts = name === 'path' ? value.split('/') : [value];
  if (parts.some((part) => part === '.' || part === '..'))
    throw new Error(`${name} must not have the part "." or "..".`);
  return parts.map(encodeURIComponent).join('/');
};

/** Also a key that was pasted and not yet taken. */
const currentKey = () => {
  if (keyField.value.trim() !== '') takeKey();
  return key;
};

/** The request that a form describes. @throws Error with a sentence for the person. */
const requestOf = (form) => {
  let { path } = form.dataset;
  const query = new URLSearchParams();
  const headers = new Headers();
  for (const field of all('[data-in]', form)) {
    const { in: place, name } = field.dataset;
    if (field.value === '' && field.hasAttribute('aria-required')) throw new Error(`${name} is required.`);
    if (field.value === '') continue;
    if (place === 'header') headers.set(name, field.value);
    else if (place === 'query') query.append(name, field.value);
    else path = path.replace(`{${name}}`, () => pathText(name, field.value));
  }
  const body = form.querySelector('[data-body]')?.value;
  if (body) headers.set('Content-Type', form.dataset.type);
  if (currentKey() !== '') headers.set('SVC-API-KEY', key);
  const search = query.size === 0 ? '' : `?${query}`;
  return { url: location.origin + path + search, method: form.dataset.method, headers, body: body || undefined };
};

/** The beginning of a body as text. */
const readText = async (response) => {
  if (!response.body) return '';
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    text += decoder.decode(value, { stream: true });
    if (text.length > RESPONSE_CHARACTERS_MAX) {
      await reader.cancel();
      return `${text.slice(0, RESPONSE_CHARACTERS_MAX)}\n(cut off)`;
    }
  }
};

/** With indents where that changes nothing else: other JSON may have numbers that a script cannot hold. */
const pretty = (text) => {
  try {
    const value = JSON.parse(text);
    return JSON.stringify(value) === text ? JSON.stringify(value, null, 2) : text;
  } catch {
    return text;
  }
};

const box = (label, text) => element('pre', { tabindex: '0', role: 'region', 'aria-label': label }, text);

/** Sends without cookies, and to this origin alone: a redirect is not followed. */
const send = async (form) => {
  const { url, ...request } = requestOf(form);
  const began = performance.now();
  const response = await fetch(url, {
    ...request,
    mode: 'same-origin',
    credentials: 'omit',
    redirect: 'manual',
    cache: 'no-store',
    referrerPolicy: 'no-referrer',
  });
  if (response.type === 'opaqueredirect')
    throw new Error('The response is a redirect, which this page does not follow.');
  const text = await readText(response);
  const { label } = form.querySelector('[data-result]').dataset;
  const kind = response.ok ? 'good' : 'bad';
  const line = element('p');
  line.append(
    element('span', { class: `badge ${kind}` }, `${response.status} ${response.statusText}`),
    ` ${Math.round(performance.now() - began)} ms`,
  );
  const headers = element('details');
  headers.append(
    element('summary', {}, 'Headers'),
    box(`${label}, headers`, [...response.headers].map(([name, value]) => `${name}: ${value}`).join('\n')),
  );
  return [line, ...(text === '' ? [] : [box(label, pretty(text))]), headers];
};

for (const form of all('[data-try]')) {
  form.hidden = false;
  const button = form.querySelector('[data-send]');
  button.addEventListener('click', async () => {
    const { method, path, asks } = form.dataset;
    if (asks !== undefined && !confirm(`Send ${method} ${path}? It changes this vault.`)) return;
    const result = form.querySelector('[data-result]');
    button.disabled = true;
    try {
      result.replaceChildren(...(await send(form)));
    } catch (error) {
      result.replaceChildren(
        element(
          'p',
          { class: 'problem' },
          error instanceof TypeError ? 'The request could not be sent.' : error.message,
        ),
      );
    } finally {
      button.disabled = false;
    }
  });
}

// A page that the browser keeps for the way back has neither key nor responses.
addEventListener('pagehide', () => {
  key = '';
  for (const field of all('input, textarea')) field.value = field.defaultValue;
  for (const result of all('[data-result]')) result.replaceChildren();
  if (card) takeKey();
});
