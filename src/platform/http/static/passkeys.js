// Completes forms with a passkey: asks the browser for one, by the options in the form, and sends what the authenticator answers.

/** Converts by hand, since not every browser converts options and answers from and to JSON. */
const bytesOf = (text) =>
  Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (character) => character.charCodeAt(0));

const textOf = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replace(/=+$/, '');

const withBytes = (listed) => listed?.map((each) => ({ ...each, id: bytesOf(each.id) }));

const create = async (options) => {
  const { id, response } = await navigator.credentials.create({
    publicKey: {
      ...options,
      challenge: bytesOf(options.challenge),
      user: { ...options.user, id: bytesOf(options.user.id) },
      excludeCredentials: withBytes(options.excludeCredentials),
    },
  });
  return {
    id,
    response: {
      clientDataJSON: textOf(response.clientDataJSON),
      attestationObject: textOf(response.attestationObject),
      transports: response.getTransports?.() ?? [],
    },
  };
};

const use = async (options) => {
  const { id, response } = await navigator.credentials.get({
    publicKey: {
      ...options,
      challenge: bytesOf(options.challenge),
      allowCredentials: withBytes(options.allowCredentials),
    },
  });
  return {
    id,
    response: {
      clientDataJSON: textOf(response.clientDataJSON),
      authenticatorData: textOf(response.authenticatorData),
      signature: textOf(response.signature),
    },
  };
};

const problems = {
  AbortError: 'The request was cancelled, or took too long. Try again.',
  InvalidStateError: 'This device has a passkey of your account already.',
  NotAllowedError: 'The request was cancelled, or took too long. Try again.',
  SecurityError: 'Passkeys do not work at this address. Open the console at its public address.',
};

/** Browsers have passkeys on pages by https, and of localhost. */
for (const form of window.PublicKeyCredential ? document.querySelectorAll('form[data-passkey]') : []) {
  const problem = form.querySelector('[data-problem]');
  const button = form.querySelector('[data-on]');
  form.querySelector('[data-off]').hidden = true;
  button.hidden = false;
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    problem.textContent = '';
    try {
      const ask = form.dataset.passkey === 'create' ? create : use;
      const answer = await ask(JSON.parse(form.dataset.options));
      form.elements.namedItem('answer').value = JSON.stringify({ ...answer, rawId: answer.id, type: 'public-key' });
      form.submit();
    } catch (error) {
      problem.textContent = problems[error.name] ?? 'The passkey did not work. Try again, or use another way.';
      // After the script of the page, which disables the button once.
      setTimeout(() => button.removeAttribute('disabled'), 0);
    }
  });
}
