// What pages do beyond forms and links. Without it every page works. It fetches nothing but what a form means that is being filled in.

/** Line numbers beside code, and Tab as two spaces. After Escape, Tab leaves the field, for users without a mouse. */
for (const editor of document.querySelectorAll('textarea[data-lines]')) {
  const gutter = document.createElement('pre');
  gutter.className = 'gutter';
  gutter.setAttribute('aria-hidden', 'true');
  editor.before(gutter);
  const marked = Number(editor.dataset.errorLine ?? 0);
  const number = () => {
    const count = editor.value.split('\n').length;
    gutter.replaceChildren(
      ...Array.from({ length: count }, (_, index) => {
        const line = document.createElement('span');
        line.textContent = `${index + 1}\n`;
        if (index + 1 === marked) line.className = 'marked';
        return line;
      }),
    );
    gutter.scrollTop = editor.scrollTop;
  };
  let leaving = false;
  editor.addEventListener('input', number);
  editor.addEventListener('scroll', () => (gutter.scrollTop = editor.scrollTop));
  editor.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') leaving = true;
    else if (event.key === 'Tab' && !event.shiftKey && !leaving && !editor.readOnly) {
      event.preventDefault();
      editor.setRangeText('  ', editor.selectionStart, editor.selectionEnd, 'end');
      number();
    } else if (event.key !== 'Tab' && event.key !== 'Shift') leaving = false;
  });
  number();
  // The marked line is in the middle, and the numbers follow.
  editor.scrollTop = (marked / editor.value.split('\n').length) * editor.scrollHeight - editor.clientHeight / 2;
}

/** Ctrl or Command with Enter sends the form that one types in, by its first button. */
addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
  const form = event.target instanceof HTMLTextAreaElement ? event.target.form : null;
  const button = form?.querySelector('button[data-main]') ?? form?.querySelector('button');
  if (form && button) form.requestSubmit(button);
});

/** Asks for confirmation before operations that cannot be undone. */
addEventListener('submit', (event) => {
  const question = event.submitter?.dataset.confirm ?? event.target.dataset.confirm;
  if (question && !confirm(question)) return event.preventDefault();
  // Once: a second click would do it again.
  const { submitter } = event;
  setTimeout(() => submitter?.setAttribute('disabled', ''), 0);
  return undefined;
});
addEventListener('pageshow', () => {
  for (const button of document.querySelectorAll('button[disabled]:not([data-off])'))
    button.removeAttribute('disabled');
});

/** Selects that act at once; without script a button beside them does. */
for (const select of document.querySelectorAll('select[data-submit]')) {
  select.form?.querySelector('button')?.setAttribute('hidden', '');
  select.addEventListener('change', () => select.form?.requestSubmit());
}

/** Times as the person's own clock has them; the exact one stays in the title. */
for (const time of document.querySelectorAll('time[datetime]')) {
  const at = new Date(time.dateTime);
  if (Number.isNaN(at.getTime())) continue;
  time.title = time.dateTime;
  time.textContent = at.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
}

/** A button beside what is shown on purpose, such as a key. Browsers have no clipboard where a page comes without TLS. */
for (const copied of navigator.clipboard ? document.querySelectorAll('[data-copy]') : []) {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'second small';
  button.textContent = copied.dataset.copy || 'Copy';
  button.setAttribute('aria-live', 'polite');
  button.addEventListener('click', async () => {
    const isDone = await navigator.clipboard.writeText(copied.textContent).then(
      () => true,
      () => false,
    );
    button.textContent = isDone ? 'Copied' : 'Not copied';
  });
  const menu = copied.closest('.copies');
  if (menu) menu.lastElementChild.before(button);
  else copied.after(' ', button);
}

/** Keys of one character can be switched off (WCAG 2.1.4). */
const KEYS_OFF = 'keys-off';
const find = document.querySelector('input[data-find]');
find?.nextElementSibling?.removeAttribute('hidden');
const isTyping = ({ target }) => target instanceof Element && target.closest('input, textarea, select') !== null;
const isPlain = (event) => !(event.ctrlKey || event.metaKey || event.altKey);

const element = (name, text, ...children) => {
  const made = document.createElement(name);
  made.append(text, ...children);
  return made;
};

const keys = [
  ['/', 'Find'],
  ['?', 'This list'],
  ['\u2193 \u2191', 'The next or previous row of a list, from Find or a row'],
  ['Ctrl Enter', 'Send the form of a text area'],
  ['Escape Tab', 'Leave an editor'],
];

const showKeys = () => {
  const isOn = document.createElement('input');
  isOn.type = 'checkbox';
  isOn.checked = localStorage.getItem(KEYS_OFF) === null;
  isOn.addEventListener('change', () =>
    isOn.checked ? localStorage.removeItem(KEYS_OFF) : localStorage.setItem(KEYS_OFF, 'yes'),
  );
  const label = element('label', isOn, ' The keys / and ? are on');
  label.className = 'check';
  const form = element('form', label, element('button', 'Close'));
  form.method = 'dialog';
  const list = element('dl', '');
  for (const [key, does] of keys) list.append(element('dt', element('kbd', key)), element('dd', does));
  const dialog = element('dialog', element('h2', 'Keys'), list, form);
  dialog.setAttribute('aria-label', 'Keys');
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
};

/** The key / goes to the box that finds records, from anywhere but a field, and ? shows all keys. */
if (find) {
  const button = element('button', 'Keys');
  button.type = 'button';
  button.className = 'keys';
  button.addEventListener('click', showKeys);
  find.form.after(button);
  addEventListener('keydown', (event) => {
    if (!['/', '?'].includes(event.key) || !isPlain(event) || isTyping(event)) return;
    if (localStorage.getItem(KEYS_OFF) !== null || document.querySelector('dialog[open]')) return;
    event.preventDefault();
    if (event.key === '?') return showKeys();
    find.focus();
    find.select();
    return undefined;
  });
}

/** Arrows go from row to row of a list, by the first link of each. */
addEventListener('keydown', (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step === undefined || !isPlain(event) || (isTyping(event) && event.target !== find)) return;
  const rows = [...document.querySelectorAll('.records tbody tr, .found li')].filter((row) => row.querySelector('a'));
  const row = event.target.closest('.records tbody tr, .found li');
  if (event.target !== find && !row) return;
  const next = rows[rows.indexOf(row) + step];
  if (!next) return;
  event.preventDefault();
  next.querySelector('a').focus();
});

/** The zone of the times above. */
for (const zone of document.querySelectorAll('[data-zone]'))
  zone.textContent = `Times in ${Intl.DateTimeFormat().resolvedOptions().timeZone}`;

/** Charts that are wider than the page begin with what is newest. */
for (const box of document.querySelectorAll('[data-end]')) box.scrollLeft = box.scrollWidth;

/** How long a person has to stop typing before the server is asked. */
const LIVE_MS = 300;

/** What the form means as it is typed, by the button that shows the same without script. */
for (const shown of document.querySelectorAll('[data-live]')) {
  const form = document.querySelector(`form#${shown.dataset.live}`);
  const button = document.querySelector(`button[form="${shown.dataset.live}"][data-check]`);
  let timer = 0;
  let asked = new AbortController();
  const ask = async () => {
    asked.abort();
    asked = new AbortController();
    const body = new URLSearchParams(new FormData(form));
    const answer = await fetch(button.formAction, { method: 'POST', body, signal: asked.signal, redirect: 'error' });
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    const found = answer.ok && page.getElementById(shown.id);
    if (found) shown.replaceChildren(...found.childNodes);
  };
  form?.addEventListener('input', () => {
    clearTimeout(timer);
    // What was shown stays if the server does not answer, and the button says why.
    timer = setTimeout(() => ask().catch(() => undefined), LIVE_MS);
  });
}
