// evidence.js tells the gateway once, when the page is left or after a minute, what the page sees of its browser and how it is
// used: how often and how evenly, by which means. No positions, no keys, no text. docs/evidence.md says what is collected.

import { point, probe } from './probes';

declare const antirobotSeal: { seal: string; to: string };

const { seal } = antirobotSeal;
const to = new URL(antirobotSeal.to, (document.currentScript as HTMLScriptElement | null)?.src ?? location.href); // whatever the page's base is
const counts = [0, 0, 0, 0, 0]; // pointer, touch, keys, scroll, focus
let last = 0, gaps = 0, sum = 0, squares = 0, sent = false;

['pointermove,pointerdown', 'touchstart', 'keydown', 'scroll', 'focusin'].forEach((names, kind) => {
  let before = -1e3;
  for (const name of names.split(',')) {
    addEventListener(name, (e) => {
      if (!kind) point(e as PointerEvent);
      const now = performance.now();
      if (now - before < 100) return; // a stroke of the pointer is many events
      before = now;
      counts[kind]!++;
      const gap = Math.log(now - last);
      if (last && now > last) { gaps++; sum += gap; squares += gap * gap; }
      last = now;
    }, { passive: true, capture: true });
  }
});

const send = () => {
  if (sent) return;
  sent = true;
  const spread = gaps > 4 ? Math.sqrt(Math.max(0, squares / gaps - (sum / gaps) ** 2)).toFixed(2) : '';
  navigator.sendBeacon(to, ['1', seal, probe(), navigator.language || '', counts.map((n) => Math.min(n, 999)).join('.'), spread].join(' '));
};
addEventListener('pagehide', send);
addEventListener('visibilitychange', () => { if (document.visibilityState === 'hidden') send(); });
setTimeout(send, 60e3);
