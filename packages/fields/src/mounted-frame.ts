// One frame of the vault in the page: it is loaded, gets its port, and reports when it is ready, missing or removed.
import type { FieldName, FromFrame, Hello, ToFrame } from './protocol.ts';

/** A frame that is not ready by then will not be: an ad blocker or a policy of the page stopped it. */
const READY_MS_MAX = 8_000;

export type MountedFrame = {
  /** Resolves when the frame is ready, missing or removed. */
  settled: Promise<void>;
  isReady(): boolean;
  send(message: ToFrame): void;
  focus(): void;
  retitle(title: string): void;
  remove(): void;
};

/**
 * Puts a frame into an element of the page.
 * @param hello called for each document that the frame loads, since a frame that is moved in the page loads again.
 * @param onMissing called when the frame does not load in time, is removed or is moved.
 */
export const mountFrame = (
  { origin, path, field, target }: { origin: string; path: string; field: FieldName; target: Element },
  title: string,
  hello: () => Hello,
  onMessage: (message: FromFrame) => void,
  onMissing: () => void,
): MountedFrame => {
  const iframe = document.createElement('iframe');
  iframe.title = title;
  // Chromium fills in fields of another origin with this; its older name, `autofill`, is a warning in the console.
  iframe.allow = 'shared-autofill';
  iframe.referrerPolicy = 'no-referrer';
  iframe.dataset['strongroomField'] = field;
  // The object model sets styles, which a strict policy of the page allows. The frame sets the height when it is ready.
  Object.assign(iframe.style, { border: '0', display: 'block', height: '3.5em', width: '100%' });
  iframe.src = `${origin}${path}`;

  let port: MessagePort | undefined;
  let isReady = false;
  let settle: () => void;
  const settled = new Promise<void>((resolve) => (settle = resolve));
  const miss = (): void => {
    removals.disconnect();
    settle();
    onMissing();
  };
  const timer = setTimeout(() => isReady || miss(), READY_MS_MAX);
  const removals = new MutationObserver(() => iframe.isConnected || miss());

  iframe.addEventListener('load', () => {
    // A frame that is moved in the page loads again, and what was typed is gone.
    if (port) onMissing();
    port?.close();
    const { port1, port2 } = new MessageChannel();
    port = port1;
    port1.addEventListener('message', ({ data }: MessageEvent<FromFrame>) => {
      if (data.kind === 'ready') {
        isReady = true;
        settle();
      } else if (data.kind === 'height') iframe.style.height = `${data.px}px`;
      else onMessage(data);
    });
    port1.start();
    iframe.contentWindow?.postMessage(hello(), origin, [port2]);
  });

  target.append(iframe);
  removals.observe(document, { childList: true, subtree: true });

  return {
    settled,
    isReady: () => isReady && iframe.isConnected,
    send: (message) => port?.postMessage(message),
    focus: () => {
      iframe.focus();
      port?.postMessage({ kind: 'focus' } satisfies ToFrame);
    },
    retitle: (text) => {
      iframe.title = text;
    },
    remove: () => {
      removals.disconnect();
      clearTimeout(timer);
      settle();
      port?.close();
      iframe.remove();
    },
  };
};
