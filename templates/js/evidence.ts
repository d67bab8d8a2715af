// evidence.js tells the gateway once, when the page is left or after a minute, which traces of a driver the page sees. docs/detection.md says
// what is collected.

import { point, probe } from './probes';

declare const antirobotSeal: { seal: string; to: string };

const { seal } = antirobotSeal;
const to = new URL(antirobotSeal.to, (document.currentScript as HTMLScriptElement | null)?.src ?? location.href); // whatever the page's base is
let sent = false;

for (const name of ['pointermove', 'pointerdown']) addEventListener(name, (e) => point(e as PointerEvent), { passive: true, capture: true });

const send = () => {
  if (sent) return;
  sent = true;
  navigator.sendBeacon(to, ['1', seal, probe()].join(' '));
};
addEventListener('pagehide', send);
addEventListener('visibilitychange', () => { if (document.visibilityState === 'hidden') send(); });
setTimeout(send, 60e3);
